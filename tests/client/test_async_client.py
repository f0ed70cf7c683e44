"""What is special to asyncio: event loops, cancellation, other tasks. The rest is the suite over both clients."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from hintcell import (
    AsyncClient,
    AsyncSession,
    ControlFailed,
    DeadlineExceeded,
    Document,
    HintcellError,
    ManagerEvent,
    ManagerUnavailable,
    OpenRefused,
    Page,
    RequestRejected,
    SessionEnded,
)
from tests.client.searches import QUERY, SOON_S, START_S, catalog, next_cursor, still_there

_Result = TypeVar("_Result")


def run(test: Coroutine[Any, Any, _Result]) -> _Result:
    """A loop of the test's own, with asyncio's debug checks, and a bound."""
    return asyncio.run(asyncio.wait_for(test, 2 * START_S), debug=True)


async def search(client: AsyncClient, principal: str = "alice", **request: Any) -> AsyncSession:
    settings: dict[str, Any] = {"snapshot_id": "snapshot", "query": QUERY, "documents": catalog()}
    return await client.open(await client.grant(principal), **settings | request)


async def until_gone(*pids: int) -> None:
    """Wait for processes that must end."""
    _, alive = await asyncio.to_thread(psutil.wait_procs, still_there(*pids), timeout=SOON_S)
    assert alive == []


@contextlib.asynccontextmanager
async def a_stopped_worker(session: AsyncSession) -> AsyncIterator[str]:
    """The cursor of a page that does not come, because the session's worker is stopped."""
    cursor = next_cursor(await session.page())
    worker = psutil.Process(session.pid)
    worker.suspend()
    try:
        yield cursor
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            worker.resume()


async def waiting(session: AsyncSession, cursor: str) -> "asyncio.Task[Page]":
    """A task that has asked for a page and waits for it."""
    task = asyncio.create_task(session.page(cursor))
    while not session._lock.locked():  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


# --- event loops ---


def test_several_loops_one_after_another_each_have_a_client() -> None:
    async def read() -> tuple[int, int]:
        async with AsyncClient() as client, await search(client) as session:
            return len([page async for page in session]), client.manager_pid

    runs = [run(read()) for _ in range(3)]
    assert [pages for pages, _ in runs] == [3, 3, 3]
    assert len({manager for _, manager in runs}) == 3
    assert not any(psutil.pid_exists(manager) for _, manager in runs)


def test_one_client_and_its_session_are_used_in_two_loops() -> None:
    client = AsyncClient()

    async def begin() -> tuple[AsyncSession, Page]:
        await client.start()
        session = await search(client)
        return session, await session.page()

    async def go_on(session: AsyncSession, first: Page) -> None:
        assert (await session.page(next_cursor(first))).offset == 20
        async with await search(client) as other:
            assert (await other.page()).total == 50
        assert [each.session_id for each in (await client.status()).sessions][:1] == [session.id]
        report = await client.permission_changed(principal="alice")
        assert session.id in {ended.session_id for ended in report.ended}
        with pytest.raises(SessionEnded, match="permission_changed"):
            await session.page()
        await client.close()

    run(go_on(*run(begin())))


def test_clients_in_one_loop_after_another_leave_no_descriptor() -> None:
    async def visit() -> None:
        async with AsyncClient() as client, await search(client) as session:
            await session.page()

    def descriptors() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    run(visit())
    before = descriptors()
    run(visit())
    assert descriptors() == before


# --- reading ---


async def _all(session: AsyncSession) -> list[Page]:
    return [page async for page in session]


def test_async_for_yields_every_page_each_time_also_for_several_tasks_at_once() -> None:
    async def read() -> None:
        async with AsyncClient() as client, await search(client) as session:
            pages = await _all(session)
            assert [(page.offset, page.total) for page in pages] == [(0, 50), (20, 50), (40, 50)]
            async for page in session:
                assert page == pages[0]
                break
            assert await asyncio.gather(*(_all(session) for _ in range(4))) == [pages] * 4

    run(read())


def test_lines_of_megabytes_are_read_whole() -> None:
    documents = [Document(f"{number:04}".ljust(128, "\x01"), "read the config") for number in range(4_096)]

    async def read() -> None:
        async with AsyncClient() as client:
            sessions = [await search(client, documents=documents, limit=4_096) for _ in range(3)]
            for page in await asyncio.gather(*(session.page() for session in sessions)):
                assert {candidate.candidate_id for candidate in page.candidates} == {each.id for each in documents}
                assert page.next_cursor is None

    run(read())


def test_errors_have_the_types_of_the_blocking_client() -> None:
    async def fail() -> None:
        async with AsyncClient() as client:
            with pytest.raises(ControlFailed, match="blank"):
                await client.grant(" ")
            with pytest.raises(ControlFailed, match="must name"):
                await client.permission_changed()
            with pytest.raises(TypeError, match="one string"):
                await client.permission_changed(labels="repo:api")
            with pytest.raises(RequestRejected, match="query is blank"):
                await (await search(client, query=" ")).page()
            session = await search(client)
            with pytest.raises(RequestRejected, match="cursor"):
                await session.page("no cursor")
            grant = await client.grant("bob")
            await client.permission_changed(principal="bob")
            with pytest.raises(OpenRefused) as refusal:
                await client.open(grant, snapshot_id="s", query="q", documents=catalog())
            assert refusal.value.reason == "permission_changed"
            with pytest.raises(HintcellError, match="starts once"):
                await client.start()
        with pytest.raises(HintcellError, match="closed: make a new AsyncClient"):
            await client.status()
        with pytest.raises(HintcellError, match="has not started"):
            await AsyncClient().status()
        with pytest.raises(ManagerUnavailable, match="no manager serves"):
            await AsyncClient("/nonexistent").start()

    run(fail())


def test_a_page_that_takes_too_long_closes_the_session() -> None:
    async def wait() -> None:
        async with AsyncClient(page_deadline_s=0.2) as client:
            session = await search(client, documents=[Document("a", "read"), Document("b", "read")], limit=1)
            async with a_stopped_worker(session) as cursor:
                with pytest.raises(DeadlineExceeded, match="the session is closed"):
                    await session.page(cursor)
                with pytest.raises(SessionEnded, match="took too long"):
                    await session.page(cursor)
            await until_gone(session.pid)

    run(wait())


# --- closing and cancelling ---


@pytest.mark.parametrize("what", ["session", "client"])
def test_closing_from_another_task_wakes_a_page_that_waits(what: str) -> None:
    async def close() -> None:
        async with AsyncClient() as client:
            session = await search(client)
            async with a_stopped_worker(session) as cursor:
                task = await waiting(session, cursor)
                async with asyncio.timeout(SOON_S):
                    await (session if what == "session" else client).close()
                    with pytest.raises(SessionEnded) as end:
                        await task
            assert end.value.reason == "completed"
            await until_gone(session.pid)

    run(close())


def test_a_cancelled_page_closes_its_session_and_no_other() -> None:
    async def cancel() -> None:
        async with AsyncClient() as client, await search(client) as stays:
            session = await search(client)
            async with a_stopped_worker(session) as cursor:
                task = await waiting(session, cursor)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                with pytest.raises(SessionEnded, match="interrupted read"):
                    await session.page()
            await until_gone(session.pid)
            assert (await client.end_of(session.id)).reason == "completed"
            assert len(await _all(stays)) == 3

    run(cancel())


def test_a_task_that_waits_for_its_turn_can_be_cancelled_without_harm_to_the_other() -> None:
    async def cancel() -> None:
        async with AsyncClient() as client, await search(client) as session:
            async with a_stopped_worker(session) as cursor:
                first, second = await waiting(session, cursor), await waiting(session, cursor)
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
            assert (await first).offset == 20

    run(cancel())


def test_a_start_that_is_cancelled_leaves_no_manager() -> None:
    async def cancel() -> None:
        client = AsyncClient()
        starting = asyncio.create_task(client.start())
        me = psutil.Process()
        before = {child.pid for child in me.children()}
        while not (managers := {child.pid for child in me.children()} - before):  # noqa: ASYNC110 - a process is no event
            await asyncio.sleep(0.001)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await until_gone(*managers)
        with pytest.raises(HintcellError, match="has not started"):
            await client.status()

    run(cancel())


def test_a_status_that_is_cancelled_leaves_the_client_as_it_was() -> None:
    async def cancel() -> None:
        async with AsyncClient() as client:
            manager = psutil.Process(client.manager_pid)
            manager.suspend()
            try:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.status(), 0.05)
            finally:
                manager.resume()
            assert (await client.status()).pid == client.manager_pid

    run(cancel())


# --- events ---


def test_events_come_to_a_task_while_others_work_and_end_with_the_client() -> None:
    async def listen() -> None:
        heard: list[ManagerEvent] = []
        is_heard = asyncio.Event()

        async def listening(events: AsyncIterator[ManagerEvent]) -> None:
            async for event in events:
                heard.append(event)
                if (
                    event.reason == "permission_changed"
                ):  # Told when its status is known, which may be after the change.
                    is_heard.set()

        async with AsyncClient() as client:
            task = asyncio.create_task(listening(await client.events()))
            session = await search(client, "carol")
            await client.permission_changed(principal="carol")
            await asyncio.wait_for(is_heard.wait(), SOON_S)
            of_carol = [(event.kind, event.reason) for event in heard if event.session_id == session.id]
            assert of_carol == [("opened", None), ("ended", "permission_changed")]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await client.status()).opened == 1

    run(listen())
