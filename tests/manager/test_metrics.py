"""Prometheus metrics of a real manager: the figures are its own, and name nobody."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import psutil
import pytest

from hintcell import Client, OpenRefused
from hintcell_manager.protocol import EndReason, RefusalReason
from tests.client.searches import search
from tests.faults.patches import Patches
from tests.faults.processes import until
from tests.manager.manager_process import SERVE
from tests.manager.places import PATIENCE_S, short_directory


@contextlib.contextmanager
def serving_metrics(place: Path) -> Iterator[int]:
    """The port at which a manager serves metrics, any that was free."""
    command = [*SERVE, "--directory", os.fspath(place), "--metrics", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as manager:
        try:
            assert manager.stderr is not None
            port = 0
            for line in manager.stderr:
                if found := re.search(r"metrics port=(\d+)", line):
                    port = int(found[1])
                if "template ready" in line:
                    break
            assert port > 0
            yield port
            manager.send_signal(signal.SIGTERM)
            assert manager.wait(PATIENCE_S) == 0
        finally:
            manager.kill()


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def figures(text: str) -> dict[str, float]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_scrape_has_the_manager_s_figures_and_names_nobody() -> None:
    with short_directory() as place, serving_metrics(place) as port, Client(place) as client:
        at_first = figures(scrape(port))
        outdated = client.grant("secret-alice", ["secret-label"])
        client.permission_changed(principal="secret-alice")
        with pytest.raises(OpenRefused):
            search(client, outdated, snapshot_id="secret-snapshot")
        grant = client.grant("secret-alice", ["secret-label"])
        with search(client, grant, snapshot_id="secret-snapshot") as first:
            first.page()
        until(lambda: client.status().ended)
        with search(client, grant, snapshot_id="secret-snapshot", query="secret config") as session:
            session.page()
            text = scrape(port)
            status = client.status()
        assert "secret" not in text
        assert session.id not in text
        found = figures(text)
        assert at_first.keys() == found.keys()
        for metric, label, values in (
            ("hintcell_sessions", "state", ["admitted", "starting", "running", "ending"]),
            ("hintcell_sessions_ended_total", "reason", get_args(EndReason)),
            ("hintcell_opens_refused_total", "reason", get_args(RefusalReason)),
        ):
            series = [name for name in at_first if name.startswith(f"{metric}{{")]
            assert series == [f'{metric}{{{label}="{value}"}}' for value in values]
            assert not any(at_first[name] for name in series)
        assert found['hintcell_sessions{state="running"}'] == 1
        assert found["hintcell_sessions_opened_total"] == status.opened == 2
        assert found['hintcell_opens_refused_total{reason="permission_changed"}'] == 1
        assert found["hintcell_permission_changes_total"] == status.epoch == 1
        assert found['hintcell_sessions_ended_total{reason="completed"}'] == 1
        for name in ("sessions_rss", "manager_rss", "template_rss"):
            assert found[f"hintcell_{name}_bytes"] > 1024 * 1024
        assert 0 < found["hintcell_manager_cpu_seconds_total"] <= status.cpu_s
        assert 0 < found["hintcell_uptime_seconds"] <= status.uptime_s


def refused_start(place: Path, address: str) -> str:
    done = subprocess.run(
        [*SERVE, "--directory", os.fspath(place), "--metrics", address],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@pytest.mark.parametrize("address", ["9100", "127.0.0.1", "127.0.0.1:http", ":9100"])
def test_an_address_without_host_or_port_is_refused(place: Path, address: str) -> None:
    assert f"--metrics: {address} is not HOST:PORT" in refused_start(place, address)


def test_a_port_that_is_taken_is_told_in_one_line(place: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        message = refused_start(place, f"127.0.0.1:{taken.getsockname()[1]}")
    assert message.count("\n") == 1
    assert "in use" in message


def test_without_prometheus_client_the_manager_says_what_to_install(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Patches(tmp_path, monkeypatch).package("prometheus_client", "raise ImportError('as if it were not installed')")
    assert "--metrics needs prometheus_client: pip install 'hintcell[metrics]'" in refused_start(place, "127.0.0.1:0")


def test_without_metrics_nothing_listens_on_tcp() -> None:
    with Client() as client:
        assert psutil.Process(client.manager_pid).net_connections(kind="inet") == []
