"""SIGKILL of the client, at several moments of a session and of its start."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hintcell import Client
from tests.client.searches import START_S, next_cursor, search, serving, short_directory
from tests.faults.driver import MOMENTS
from tests.faults.processes import Watched, assert_none_left, until

pytestmark = pytest.mark.usefixtures("adopted_orphans")

DRIVER = Path(__file__).with_name("driver.py")

# A manager that is still loading notices that its client is gone when it has loaded.
LEFT_AFTER_START_WITHIN_S = 5.0


@contextlib.contextmanager
def driver(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, str(DRIVER), *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    pids: dict[str, Any] = json.loads(process.stdout.readline())
    return pids


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_death_of_a_client_ends_its_manager_template_and_sessions(runtime: Path, moment: str) -> None:
    with driver(moment) as client, contextlib.ExitStack() as stack:
        pids = told(client)
        family = [stack.enter_context(Watched(pids[name])) for name in ("manager", "template")]
        with contextlib.suppress(psutil.NoSuchProcess):  # While opening, this worker may be gone already.
            family.append(stack.enter_context(Watched(pids["worker"])) if "worker" in pids else family[0])
        client.kill()
        assert_none_left(family)
        assert list(runtime.iterdir()) == []


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Path, Client]]:
    with short_directory() as path, serving(path), Client(path) as client:
        yield path, client


@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment not in {"idle", "template_loading"}])
def test_the_death_of_a_client_of_a_shared_manager_ends_its_sessions_and_no_others(
    served: tuple[Path, Client], moment: str
) -> None:
    directory, other = served
    with search(other, other.grant("stays")) as stays:
        first = stays.page()
        with driver(moment, str(directory)) as client:
            session = told(client)
            client.kill()
        until(lambda: [each.session_id for each in other.status().sessions] == [stays.id], within_s=1.0)
        # Whether the manager or the worker sees it first: half a request is also one that is refused.
        possible = {"completed", "rejected"} if moment == "half_a_request" else {"completed"}
        assert other.end_of(session["session"]).reason in possible
        assert stays.page(next_cursor(first)).offset == 20
        assert other.manager_pid == session["manager"]


@pytest.mark.parametrize("moment", ["the manager runs", "the door is open", "the template runs"])
def test_the_death_of_a_client_at_its_start_leaves_nothing(runtime: Path, moment: str) -> None:
    before = set(psutil.Process().children(recursive=True))
    with driver("idle") as client:
        ours = psutil.Process(client.pid)
        until(ours.children, START_S)
        (manager,) = ours.children()
        if moment == "the door is open":
            until(lambda: list(runtime.glob("*/door")), START_S)
        elif moment == "the template runs":
            until(manager.children, START_S)
        client.kill()
        client.wait()

        def nothing_left() -> bool:
            # All of its descendants are ours now.
            for process in set(psutil.Process().children(recursive=True)) - before:
                with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                    process.wait(0)
            return not set(psutil.Process().children(recursive=True)) - before

        until(nothing_left, LEFT_AFTER_START_WITHIN_S)
