"""What daemons are started with: standard descriptors that are closed, and hang-ups that are ignored."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hintcell import Client
from hintcell_manager.protocol import DOOR_NAME
from tests.client.searches import START_S, search, serving
from tests.faults.processes import SOON_S, until

_STANDARD = (0, 1, 2)
_SUBSETS = [closed for count in range(1, 4) for closed in itertools.combinations(_STANDARD, count)]

_SCRIPT = """
import os, sys
told = os.fdopen(os.dup(int(sys.argv[1])), "w")
for descriptor in map(int, sys.argv[2:]):
    os.close(descriptor)
from hintcell import *
documents = [Document(str(number), "read") for number in range(9)]
with Client() as client, client.open(
    client.grant("a"), snapshot_id="s", query="read", documents=documents, limit=4
) as session:
    pages = [len(page.candidates) for page in session]
    low = session._connection.fileno() < 3
    of_manager = sorted(os.listdir(f"/proc/{client.manager_pid}/fd"), key=int)[:3]
print(pages, low, of_manager, file=told, flush=True)
"""


@pytest.mark.parametrize("launcher", ["template", "exec"])
@pytest.mark.parametrize("closed", _SUBSETS, ids=str)
def test_a_client_without_standard_descriptors_has_a_manager_and_sessions(
    closed: tuple[int, ...], launcher: str, runtime: Path
) -> None:
    script = _SCRIPT.replace("Client()", f'Client(options=ManagerOptions(launcher="{launcher}"))')
    ours, theirs = os.pipe()
    with os.fdopen(ours) as told:
        done = subprocess.run(
            [sys.executable, "-c", script, str(theirs), *map(str, closed)],
            pass_fds=[theirs],
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )
        os.close(theirs)
        assert told.read() == "[4, 4, 1] False ['0', '1', '2']\n", done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("closed", _SUBSETS, ids=str)
def test_a_shared_manager_without_standard_descriptors_serves(closed: tuple[int, ...], directory: Path) -> None:
    redirections = " ".join(f"{descriptor}>&-" for descriptor in closed)
    script = f'exec "$1" -P -m hintcell_manager serve --directory "$2" {redirections}'
    with subprocess.Popen(["sh", "-c", script, "sh", sys.executable, str(directory)]) as manager:
        try:
            until(lambda: (directory / DOOR_NAME).exists() or manager.poll() is not None)
            with Client(directory) as client, search(client, client.grant("alice")) as session:
                assert session.page().total == 50
        finally:
            manager.terminate()
            assert manager.wait(SOON_S) == 0


def test_a_hang_up_that_was_ignored_when_a_manager_started_does_not_stop_it(directory: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with serving(directory) as manager, Client(directory) as client:
            manager.send_signal(signal.SIGHUP)
            with search(client, client.grant("alice")) as session:
                assert session.page().total == 50
            manager.terminate()
            assert manager.wait(SOON_S) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_hang_up_stops_a_manager_that_nobody_told_to_ignore_it(directory: Path) -> None:
    with serving(directory) as manager:
        manager.send_signal(signal.SIGHUP)
        assert manager.wait(SOON_S) == 0
