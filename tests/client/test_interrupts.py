"""Ctrl-C, and whatever else a signal's handler raises: it comes out as it is, and leaves no half exchange behind."""

import contextlib
import gc
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from hintcell import Client, Session, SessionEnded
from hintcell import client as client_module
from hintcell import conversation as conversation_module
from hintcell import session as session_module
from tests.client.searches import SOON_S, catalog, next_cursor, search, still_there
from tests.faults.processes import until

_SOON_INTERRUPTED_S = 0.2
# Of a page and of an open, by how many lines of Python they run.
_MAX_LINES = 300

_INTERRUPTED: list[BaseException] = [
    KeyboardInterrupt(),
    ZeroDivisionError(),
    TimeoutError("not the session's own"),
    ConnectionResetError("not the session's own"),
    OSError("not the session's own"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A blocking one: a task of asyncio is cancelled instead, which `test_async_client` covers."""
    with Client() as client:
        search(client, client.grant("warm")).close()
        yield client


@contextlib.contextmanager
def interrupted(error: BaseException) -> Iterator[None]:
    """Soon a signal's handler raises this in the main thread, which does not get any further by itself."""

    def handler(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, _SOON_INTERRUPTED_S)
        with pytest.raises(type(error)) as raised:
            yield
        assert raised.value is error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def assert_broken_off(session: Session) -> None:
    for call in (session.page, lambda: session.page("x"), lambda: list(session)):
        with pytest.raises(SessionEnded, match="by an interrupted read") as end:
            call()
        assert end.value.reason == "completed"


@pytest.mark.parametrize("error", _INTERRUPTED, ids=repr)
@pytest.mark.parametrize("is_first", [True, False], ids=["first page", "later page"])
def test_an_interrupted_read_closes_its_session(client: Client, error: BaseException, is_first: bool) -> None:
    session = search(client, client.grant("alice"), documents=catalog(4_000) if is_first else None)
    worker = psutil.Process(session.pid)
    cursor = None if is_first else next_cursor(session.page())
    worker.suspend()
    with interrupted(error):
        session.page(cursor)
    assert_broken_off(session)
    worker.resume()
    assert psutil.wait_procs([worker], timeout=SOON_S)[1] == []
    assert client.end_of(session.id).reason == "completed"


@pytest.mark.parametrize("error", _INTERRUPTED, ids=repr)
def test_an_interrupted_open_leaves_nothing(client: Client, error: BaseException) -> None:
    template = psutil.Process(client.status().template_pid)
    grant = client.grant("alice")
    before = descriptors()
    template.suspend()
    try:
        with interrupted(error):
            search(client, grant)
    finally:
        template.resume()
    until_none_is_open(client)
    until(lambda: descriptors() <= before)  # ZeroMQ closes what the last question took meanwhile.
    assert template.children() == []


@pytest.mark.parametrize("error", _INTERRUPTED, ids=repr)
def test_an_open_that_is_interrupted_while_it_sends_leaves_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    grant = client.grant("alice")
    pids: list[int] = []

    def begin(session: Session, *request: Any) -> None:
        pids.append(session.pid)
        psutil.Process(session.pid).suspend()
        real(session, *request)

    real = Session.begin
    monkeypatch.setattr(Session, "begin", begin)
    with interrupted(error):  # Megabytes do not fit the buffer of a socket that nobody reads.
        search(client, grant, documents=catalog(400, text_bytes=5_000))
    for worker in still_there(*pids):
        worker.resume()
    until_none_is_open(client)
    assert psutil.wait_procs(still_there(*pids), timeout=SOON_S)[1] == []


def test_an_interrupt_at_any_line_of_a_page_leaves_a_session_that_answers_or_is_closed(client: Client) -> None:
    grant = client.grant("alice")
    outcomes: list[str] = []
    with search(client, grant) as untouched:
        first, second, third = untouched
    for number in range(1, _MAX_LINES):
        with search(client, grant) as session:
            assert session.page() == first
            came = at_line(number, lambda: session.page(first.next_cursor))
            try:
                after = [session.page(), session.page(second.next_cursor)]
            except SessionEnded as end:
                outcomes.append(end.message)
            else:
                assert after == [first, third], number
                outcomes.append("it goes on")
        if came is not None:
            assert came == second
            break
    assert len(outcomes) > 20
    assert set(outcomes) == {"it goes on", "the session was closed here, by an interrupted read"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_of_an_open_leaves_nothing(client: Client) -> None:
    grant = client.grant("alice")
    before = descriptors()
    for number in range(1, _MAX_LINES):
        session = at_line(number, lambda: search(client, grant))
        if session is not None:
            session.close()
            break
        gc.collect()
        until(lambda: descriptors() <= before)
    assert number > 20
    until_none_is_open(client)


_Called = Callable[[], Any]


def at_line(number: int, call: _Called) -> Any:
    """Raise KeyboardInterrupt before that line of the client's is run, counted from the call; or else its result."""
    files = {module.__file__ for module in (client_module, session_module, conversation_module)}
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call()
    except KeyboardInterrupt:
        return None
    finally:
        sys.settrace(before)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def until_none_is_open(client: Client) -> None:
    until(lambda: not client.status().sessions)
