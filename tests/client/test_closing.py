"""The ends that a caller decides: closing a session, closing a client, and forgetting to."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from hintcell import Client, Grant, HintcellError, ManagerUnavailable, OpenRefused, Page, Session, SessionEnded
from tests.client.searches import SOON_S, START_S, next_cursor, search, serving, still_there


def family_of(client: Client, *sessions: Session) -> list[psutil.Process]:
    template = client.status().template_pid
    assert template is not None
    return [psutil.Process(pid) for pid in (client.manager_pid, template, *(session.pid for session in sessions))]


def assert_gone(processes: list[psutil.Process]) -> None:
    """Every one of them is reaped, not just dead."""
    _, alive = psutil.wait_procs(processes, timeout=SOON_S)
    assert alive == []


def test_closing_a_session_ends_its_worker_and_no_other(client: Client, grant: Grant) -> None:
    with search(client, grant) as stays:
        session = search(client, grant)
        worker = psutil.Process(session.pid)
        session.page()
        session.close()
        session.close()
        assert_gone([worker])
        with pytest.raises(SessionEnded) as end:
            session.page()
        assert end.value.reason == "completed"
        assert client.end_of(session.id).reason == "completed"
        assert stays.page().total == 50


def test_a_context_manager_closes_what_it_opened_also_on_an_error(client_type: type[Client]) -> None:
    processes: list[psutil.Process] = []

    def fail() -> None:
        with client_type() as client, search(client, client.grant("alice")) as session:
            processes.extend(family_of(client, session))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert_gone(processes)


def test_closing_a_client_ends_its_sessions_manager_and_template_before_it_returns(client_type: type[Client]) -> None:
    client = client_type()
    sessions = [search(client, client.grant("alice")) for _ in range(3)]
    processes = family_of(client, *sessions)
    client.close()
    assert [process for process in processes if process.is_running()] == []
    assert not client.directory.exists()
    client.close()
    for session in sessions:
        with pytest.raises(SessionEnded, match="completed"):
            session.page()


def test_a_closed_client_says_so(client_type: type[Client]) -> None:
    client = client_type()
    grant = client.grant("alice")
    client.close()
    for call in (
        lambda: client.grant("alice"),
        lambda: search(client, grant),
        lambda: client.permission_changed(everyone=True),
        client.status,
        lambda: client.end_of("x"),
    ):
        with pytest.raises(HintcellError, match="closed: make a new (Async)?Client"):
            call()


def test_a_client_that_was_never_used_leaves_nothing(client_type: type[Client]) -> None:
    with client_type() as client:
        manager = psutil.Process(client.manager_pid)
        processes = [manager, *manager.children()]
    assert_gone(processes)
    assert not client.directory.exists()


def waiting_for_a_page(session: Session, outcome: list[Page | BaseException]) -> threading.Thread:
    """A thread that asks for a page which does not come, because the worker is stopped."""
    cursor = next_cursor(session.page())
    psutil.Process(session.pid).suspend()

    def wait() -> None:
        try:
            outcome.append(session.page(cursor))
        except HintcellError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("what", ["session", "client"])
def test_closing_wakes_a_thread_that_waits_for_a_page(client_type: type[Client], what: str) -> None:
    with client_type() as client:
        session = search(client, client.grant("alice"))
        outcome: list[Page | BaseException] = []
        thread = waiting_for_a_page(session, outcome)
        (session if what == "session" else client).close()
        thread.join(SOON_S)
        assert not thread.is_alive()
        assert isinstance(outcome[0], SessionEnded)
        assert outcome[0].reason == "completed"


def test_closing_a_client_ends_the_opens_that_other_threads_wait_in(client_type: type[Client]) -> None:
    with client_type() as client:
        grant = client.grant("alice")
        outcome: list[BaseException] = []

        def wait() -> None:
            try:
                search(client, grant).close()
            except HintcellError as error:
                outcome.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        while not client.status().sessions:  # The template is still loading: the session waits for it.
            assert thread.is_alive()
        client.close()
        thread.join(SOON_S)
        assert not thread.is_alive()
        assert isinstance(outcome[0], OpenRefused | ManagerUnavailable)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_closing_a_client_ends_a_control_request_of_another_thread_with_an_error_of_ours(
    client_type: type[Client],
) -> None:
    with client_type() as client:
        manager = psutil.Process(client.manager_pid)
        outcome: list[BaseException] = []
        asking = threading.Event()

        def ask() -> None:
            asking.set()
            try:
                client.permission_changed(everyone=True)
            except Exception as error:  # noqa: BLE001 - which one is the question
                outcome.append(error)

        thread = threading.Thread(target=ask)
        manager.suspend()
        thread.start()
        asking.wait(SOON_S)
        threading.Timer(0.5, manager.resume).start()
        client.close()
        thread.join(SOON_S)
        assert isinstance(outcome[0], HintcellError)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_session_of_a_closed_client_delivers(client_type: type[Client], directory: Path) -> None:
    delivered = 0
    with serving(directory), client_type(directory) as watcher:
        search(watcher, watcher.grant("warm")).close()
        template = psutil.Process(watcher.status().template_pid)
        client = client_type(directory)
        grant = client.grant("alice")
        opened: list[Session] = []

        def open_one() -> None:
            with contextlib.suppress(HintcellError):
                opened.append(search(client, grant))

        thread = threading.Thread(target=open_one)
        template.suspend()
        thread.start()
        while not watcher.status().sessions:
            assert thread.is_alive()
        client.close()
        template.resume()
        thread.join(SOON_S)
        for session in opened:
            try:
                session.page()
                delivered += 1
            except SessionEnded:
                pass
            session.close()
    assert delivered == 0


DROPPED = """
import gc, sys, warnings
from hintcell import Client, Document
client = Client()
session = client.open(client.grant("alice"), snapshot_id="s", query="a", documents=[Document("a", "a")])
session.page()
print(client.manager_pid, client.status().template_pid, session.pid, client.directory)
if sys.argv[1] == "collected":
    del client, session
    gc.collect()
    print("collected", flush=True)
    sys.stdin.read()
if sys.argv[1] == "error":
    raise ZeroDivisionError
"""


@pytest.mark.parametrize("how", ["collected", "exit", "error"])
def test_a_client_that_is_dropped_without_close_leaves_nothing(how: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", DROPPED, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as script:
        assert script.stdout is not None
        *pids, directory = script.stdout.readline().split()
        processes = still_there(*map(int, pids))
        if how == "collected":
            assert script.stdout.readline() == "collected\n"
        else:
            assert script.wait(START_S) == (1 if how == "error" else 0)
        assert_gone(processes)
        assert not Path(directory).exists()
        assert (script.poll() is None) == (how == "collected")
        script.communicate(timeout=START_S)
