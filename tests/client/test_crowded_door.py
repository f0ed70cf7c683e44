"""A door whose queue is full, because its manager stands still: who knocks is told within the deadline."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from hintcell import Client, DeadlineExceeded, Grant, ManagerUnavailable
from hintcell import async_client as async_client_module
from hintcell import client as client_module
from hintcell import sidecar as sidecar_module
from hintcell_manager.protocol import DOOR_NAME
from tests.client.searches import SOON_S, search, serving

_DEADLINE_S = 0.5


@contextlib.contextmanager
def crowd(door: Path) -> Iterator[None]:
    """So many visitors that nobody else can connect."""
    with contextlib.ExitStack() as visitors:
        while True:
            visitor = visitors.enter_context(socket.socket(socket.AF_UNIX))
            visitor.setblocking(False)
            try:
                visitor.connect(str(door))
            except BlockingIOError:
                break
        yield


@pytest.fixture
def stuck_door(directory: Path) -> Iterator[Path]:
    """The directory of a door that is full and never opens."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(directory / DOOR_NAME))
        door.listen(1)
        with crowd(directory / DOOR_NAME):
            yield directory


def in_a_thread(call: Callable[[], object]) -> list[BaseException]:
    """What it raised, if it ended soon."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - which one is the question
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON_S)
    assert not thread.is_alive(), "it waits beyond its deadline"
    return raised


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (client_module, async_client_module):
        monkeypatch.setattr(module, "OPEN_DEADLINE_S", _DEADLINE_S)
    monkeypatch.setattr(sidecar_module, "ATTACH_DEADLINE_S", _DEADLINE_S)


@pytest.mark.usefixtures("short_deadlines")
def test_a_client_of_a_manager_that_stands_still_is_told_in_time(client_type: type[Client], stuck_door: Path) -> None:
    (error,) = in_a_thread(lambda: client_type(stuck_door))
    assert isinstance(error, ManagerUnavailable)
    assert "does not answer" in str(error)


@contextlib.contextmanager
def stopped_manager(client_type: type[Client], directory: Path) -> Iterator[tuple[Client, Grant]]:
    with serving(directory) as manager, client_type(directory) as client:
        grant = client.grant("alice")
        psutil.Process(manager.pid).suspend()
        try:
            yield client, grant
        finally:
            psutil.Process(manager.pid).resume()


@pytest.mark.usefixtures("short_deadlines")
@pytest.mark.parametrize("is_full", [True, False], ids=["full", "not full"])
def test_an_open_at_the_door_of_a_manager_that_stands_still_is_told_in_time(
    client_type: type[Client], directory: Path, is_full: bool
) -> None:
    with stopped_manager(client_type, directory) as (client, grant):
        with crowd(directory / DOOR_NAME) if is_full else contextlib.nullcontext():
            (error,) = in_a_thread(lambda: search(client, grant))
        assert isinstance(error, DeadlineExceeded)
        assert f"within {_DEADLINE_S:g} s" in str(error)


@pytest.mark.usefixtures("short_deadlines")
def test_a_line_longer_than_the_socket_s_buffer_is_not_waited_for_either(
    client_type: type[Client], directory: Path
) -> None:
    with serving(directory) as manager, client_type(directory) as client:
        grant = client.grant("alice", [f"{number:04}".ljust(1_024, "x") for number in range(256)])
        psutil.Process(manager.pid).suspend()
        try:
            (error,) = in_a_thread(lambda: search(client, grant))
        finally:
            psutil.Process(manager.pid).resume()
        assert isinstance(error, DeadlineExceeded)


def test_who_is_let_in_late_is_served(client_type: type[Client], directory: Path) -> None:
    with stopped_manager(client_type, directory) as (client, grant):
        pages: list[int] = []

        def read() -> None:
            with search(client, grant) as session:
                pages.append(session.page().total)

        with crowd(directory / DOOR_NAME):
            thread = threading.Thread(target=read, daemon=True)
            thread.start()
            time.sleep(0.1)  # It knocks in vain a few times; nobody tells.
        psutil.Process(client.manager_pid).resume()
        thread.join(SOON_S)
        assert pages == [50]


def test_a_signal_while_an_open_waits_at_a_full_door_changes_nothing(directory: Path) -> None:
    signals: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: signals.append(number))
    try:
        with stopped_manager(Client, directory) as (client, grant), crowd(directory / DOOR_NAME):
            manager = psutil.Process(client.manager_pid)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            threading.Timer(0.5, manager.resume).start()
            with search(client, grant) as session:
                assert session.page().total == 50
        assert signals == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)
