"""A call while it is made: its client is told how far it is, and of a cancelled one nothing is left."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from hintcell.integrations.mcp import SearchServer, calls, progress, tools
from hintcell.integrations.mcp.calls import AbandonedError
from hintcell.searches import Results
from tests.client.cli.processes import EVENT_DEADLINE_S, Command
from tests.integrations.mcp.ranking import Ranking, hit

# `hintcell mcp`, which tells how far it is at every turn of its event loop.
_TELLING = """\
import sys
from hintcell.cli import main
from hintcell.integrations.mcp import calls
calls._REPORT_EVERY_S = 0
sys.exit(main(['mcp', *sys.argv[1:]]))
"""


def test_a_client_that_asks_is_told_how_many_files_are_read(command: Command, folder: Path) -> None:
    told: list[tuple[float, float | None]] = []

    async def tell(done: float, total: float | None, message: str | None) -> None:
        assert message == "files read"
        told.append((done, total))

    async def use() -> None:
        arguments = ["-P", "-c", _TELLING, "--root", str(folder)]
        server = StdioServerParameters(command=sys.executable, args=arguments, env=command.environment)
        async with Client(stdio_client(server)) as client:
            result = await client.call_tool("search_code", {"query": "needle"}, progress_callback=tell)
            assert not result.is_error

    anyio.run(use)
    assert told[-1] == (2, 2)  # The folder's files, while the search was opened at the latest.
    assert told == sorted(set(told))


class _Reading(Ranking):
    """Reads two files, the second one when it is told to; what follows takes as long as it is told to."""

    def __init__(self) -> None:
        super().__init__([hit(1)])
        self.reads_first = threading.Event()
        self.read_second = threading.Event()
        self.opens = threading.Event()
        self.open = threading.Event()
        self.is_read = False
        self.closed = threading.Event()

    def search(self, query: str, globs: Sequence[str], limit: int) -> Results:
        progress(1, 2)
        self.reads_first.set()
        assert self.read_second.wait(EVENT_DEADLINE_S)
        try:
            progress(2, 2)
        except AbandonedError:
            self.closed.set()
            raise
        self.is_read = True
        self.opens.set()
        assert self.open.wait(EVENT_DEADLINE_S)
        return super().search(query, globs, limit)

    def close_search(self, session: str) -> bool:
        assert session == "s"
        self.closed.set()
        return True


def test_it_is_told_at_most_a_few_times_a_second_and_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.1 <= calls._REPORT_EVERY_S <= 1
    monkeypatch.setattr(calls, "_REPORT_EVERY_S", 0)
    source = _Reading()
    told: list[float] = []

    async def tell(done: float, _total: float | None, _message: str | None) -> None:
        told.append(done)
        (source.read_second if done == 1 else source.open).set()

    async def use() -> None:
        async with Client(SearchServer(source, folder="/srv/code")) as client:
            await client.call_tool("search_code", {"query": "read"}, progress_callback=tell)

    anyio.run(use)
    assert told == [1, 2]


async def _cancelled(source: _Reading, moment: threading.Event) -> None:
    server = SearchServer(source, folder="/srv/code")
    with anyio.fail_after(EVENT_DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(server.call_tool, "search_code", {"query": "read"})
            await anyio.to_thread.run_sync(moment.wait, EVENT_DEADLINE_S)
            group.cancel_scope.cancel()


def test_a_cancelled_call_reads_no_more_files() -> None:
    source = _Reading()
    anyio.run(_cancelled, source, source.reads_first)
    source.read_second.set()
    assert source.closed.wait(EVENT_DEADLINE_S)
    assert not source.is_read


def test_what_a_cancelled_call_opens_is_closed() -> None:
    source = _Reading()
    source.read_second.set()
    anyio.run(_cancelled, source, source.opens)
    assert not source.closed.is_set()
    source.open.set()
    assert source.closed.wait(EVENT_DEADLINE_S)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_was_opened_is_closed_whichever_comes_first(is_late: bool) -> None:
    call = calls.Call()
    undone: list[str] = []
    if is_late:
        call.abandon()
    call.or_else(lambda: undone.append("closed"))
    assert undone == ["closed"] * is_late
    if not is_late:
        call.abandon()
    assert undone == ["closed"]


class _Crowded(_Reading):
    """Tells when as many searches as are made at once are being made."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Semaphore(0)

    def search(self, query: str, globs: Sequence[str], limit: int) -> Results:
        self.begun.release()
        return super().search(query, globs, limit)

    def begin(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=EVENT_DEADLINE_S)


def test_of_many_searches_few_are_made_at_once_and_other_calls_do_not_wait_for_them() -> None:
    source = _Crowded()
    server = SearchServer(source, folder="/srv/code")

    async def use() -> None:
        with anyio.fail_after(EVENT_DEADLINE_S):
            async with anyio.create_task_group() as group:
                for _ in range(100):
                    group.start_soon(server.call_tool, "search_code", {"query": "read"})
                await anyio.to_thread.run_sync(source.begin, tools._SEARCHES_AT_ONCE)
                closed = await server.call_tool("close_search", {"session": "s"})
                assert not closed.is_error
                group.cancel_scope.cancel()

    anyio.run(use)
    assert not source.begun.acquire(blocking=False)
    source.read_second.set()
