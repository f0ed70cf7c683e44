"""The agent that uses `AsyncClient`: a task for each command, and tasks that can be cancelled."""

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

from hintcell import AsyncClient, AsyncSession
from tests.faults.storm import agent, catalogs
from tests.faults.storm.messages import (
    AskEnd,
    AskGrant,
    AskStatus,
    Cancel,
    Cancelled,
    Change,
    Close,
    Command,
    Done,
    EndTold,
    Fork,
    Granted,
    Leave,
    Missing,
    Open,
    Result,
    Start,
    Started,
    Stop,
    Turn,
)


class _Held:
    def __init__(self, session: AsyncSession) -> None:
        self.session = session
        self.cursor: str | None = None


class AsyncioAgent:
    """Performs commands with an asyncio client."""

    def __init__(self) -> None:
        self._client: AsyncClient | None = None
        self._held: dict[str, _Held] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._commanded_to_cancel: set[int] = set()

    async def serve(self) -> None:
        """Start a task for each command, until there are no more."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=1024 * 1024)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        agent.tell(agent.READY, time.monotonic(), Done())
        while line := await reader.readline():
            for command in agent.said([line]):
                if isinstance(command, Leave):
                    self._commanded_to_cancel.update(self._tasks)  # asyncio.run does that next.
                    return
                self._begin(command.op, self._perform(command))

    def _begin(self, op: int, performance: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(performance)
        self._tasks[op] = task
        task.add_done_callback(lambda _: self._tasks.pop(op))

    async def _perform(self, command: Command) -> None:
        began = time.monotonic()
        try:
            result = await (self._start(command) if isinstance(command, Start) else self._do(command, self._usable()))
        except asyncio.CancelledError as error:
            result = Cancelled() if command.op in self._commanded_to_cancel else agent.failure(error)
        except BaseException as error:  # noqa: BLE001 - whatever comes is what was to be seen
            result = agent.failure(error)
        agent.tell(command.op, began, result)

    def _usable(self) -> AsyncClient:
        if self._client is None:
            raise RuntimeError("commanded before Start was answered")
        return self._client

    async def _start(self, command: Start) -> Result:
        client = AsyncClient(command.directory, options=command.options)
        await client.start()
        self._client = client
        return Started(str(client.directory), client.manager_pid)

    async def _do(self, command: Command, client: AsyncClient) -> Result:
        match command:
            case AskGrant():
                return Granted(await client.grant(command.principal, command.labels))
            case Open():
                return await self._open(command, client)
            case Turn():
                return await self._turn(command)
            case Close():
                if (held := self._held.get(command.key)) is None:
                    return Missing()
                await held.session.close()
                return Done()
            case Change():
                report = await client.permission_changed(
                    principal=command.principal,
                    labels=command.labels,
                    snapshot_id=command.snapshot_id,
                    session_id=command.session_id,
                    everyone=command.everyone,
                )
                survivors = agent.survivors(command)
                return agent.changed(tuple(end.session_id for end in report.ended), report.took_s, survivors)
            case AskStatus():
                return agent.status_seen(await client.status())
            case AskEnd():
                end = await client.end_of(command.session_id)
                return EndTold(end.reason, end.message)
            case Cancel():
                if (task := self._tasks.get(command.target)) is None:
                    return Missing()
                self._commanded_to_cancel.add(command.target)
                task.cancel()
                return Done()
            case Fork():
                return agent.fork()
            case Stop():
                await client.close()
                return Done()
            case Leave() | Start():
                return Missing()

    async def _open(self, command: Open, client: AsyncClient) -> Result:
        session = await client.open(
            command.grant,
            snapshot_id=command.snapshot_id,
            query=command.query,
            documents=catalogs.documents(command.key, command.catalog),
            limit=catalogs.LIMITS[command.catalog],
            identifier_hints=command.identifier_hints,
        )
        self._held[command.key] = _Held(session)
        return agent.opened(session.id, session.pid)

    async def _turn(self, command: Turn) -> Result:
        if (held := self._held.get(command.key)) is None:
            return Missing()
        if command.which == "bad":
            await held.session.page("bm9uZQ")
        page = await held.session.page(held.cursor if command.which == "next" else None)
        held.cursor = page.next_cursor or held.cursor
        return agent.page_seen(page, command.key)
