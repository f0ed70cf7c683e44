"""`AsyncClient`: `Client` for asyncio, with its names.

Covers deadlines, cancellation and the opening of a session. Does not cover reading one (`async_session`), nor what the
bytes mean (`conversation`).

Nothing here belongs to an event loop for longer than a call, so a client may be used from one loop after another.
An open that is cancelled closes its connection, and leaves nothing behind.
"""

import asyncio
import contextlib
import os
import socket
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from hintcell.async_session import AsyncSession
from hintcell.client import OPEN_DEADLINE_S
from hintcell.control import AsyncControl, as_labels, permission_change
from hintcell.conversation import Conversation
from hintcell.errors import (
    DeadlineExceeded,
    HintcellError,
    ManagerUnavailable,
    OpenRefused,
)
from hintcell.listening import AsyncListening
from hintcell.session import PAGE_DEADLINE_S, READ_BYTES
from hintcell.sidecar import CROWDED_DOOR_S, Sidecar, new_socket, reach
from hintcell_manager.protocol import (
    Admitted,
    ChangeReport,
    CloseRequest,
    End,
    EndRequest,
    Grant,
    GrantRequest,
    ManagerOptions,
    Refused,
    Status,
    StatusRequest,
)
from hintcell_worker.protocol import Document, Hints, Limits


class AsyncClient:
    """`Client` for asyncio: `async with AsyncClient() as client`. Arguments and errors are those of `Client`."""

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        options: ManagerOptions | None = None,
        page_deadline_s: float = PAGE_DEADLINE_S,
    ) -> None:
        """Prepare a client; entering its context, or `start`, connects it.

        Args:
            directory: the shared manager's runtime directory; None starts a manager for this client alone.
            options: how the private manager shall run; a shared one has its own.
            page_deadline_s: seconds that a page may take, from asking for it; 60 by default.
        """
        self._owner = os.getpid()
        self._directory = None if directory is None else Path(directory)
        self._options = options
        self._page_deadline_s = page_deadline_s
        self._sessions: weakref.WeakSet[AsyncSession] = weakref.WeakSet()
        self._listening: weakref.WeakSet[AsyncListening] = weakref.WeakSet()
        self._sidecar: Sidecar | None = None
        self._control: AsyncControl | None = None
        self._closed = False

    async def start(self) -> None:
        """Start the private manager, or connect to the shared one.

        Raises:
            ManagerUnavailable: it does not start, or none serves the directory.
        """
        if self._sidecar is not None or self._closed:
            raise HintcellError("a client starts once: make a new AsyncClient")
        # Cancelled, this drops the sidecar that the thread is about to return, and a dropped sidecar stops.
        self._sidecar = await asyncio.to_thread(Sidecar.open, self._directory, self._options)
        self._control = AsyncControl(self._sidecar.manager)

    @property
    def directory(self) -> Path:
        """The manager's runtime directory."""
        return self._started().directory

    @property
    def manager_pid(self) -> int:
        """The manager's process."""
        return self._started().pid

    async def grant(self, principal: str, labels: Sequence[str] = ()) -> Grant:
        """As `Client.grant`."""
        return await self._usable()[1].ask(GrantRequest(principal, as_labels(labels)), Grant)

    async def open(
        self,
        grant: Grant,
        *,
        snapshot_id: str,
        query: str,
        documents: Sequence[Document],
        limit: int = 20,
        identifier_hints: bool = False,
        hints: Hints | None = None,
        limits: Limits | None = None,
    ) -> AsyncSession:
        """As `Client.open`."""
        sidecar, _ = self._usable()
        conversation = Conversation(
            grant, snapshot_id, limit, identifier_hints=identifier_hints, limits=limits, client=sidecar.client
        )
        connection = new_socket()
        try:
            try:
                async with asyncio.timeout(OPEN_DEADLINE_S):
                    await _knock(connection, sidecar, conversation)
                    line = conversation.request(query, documents, hints)  # Meanwhile, a worker is forked.
                    admitted = await _admission(connection, conversation)
            except TimeoutError:
                raise DeadlineExceeded(f"no worker was ready within {OPEN_DEADLINE_S:g} s") from None
            session = AsyncSession(self, connection, conversation, admitted, limit, self._page_deadline_s)
            self._sessions.add(session)
            if self._closed:  # By another task, which did not know this session yet.
                await session.close()
            await session.begin(line)
        except BaseException:
            connection.close()
            raise
        return session

    async def permission_changed(
        self,
        *,
        principal: str | None = None,
        labels: Sequence[str] | None = None,
        snapshot_id: str | None = None,
        session_id: str | None = None,
        everyone: bool = False,
    ) -> ChangeReport:
        """As `Client.permission_changed`. Cancelled, the change may have been made or not: make it again."""
        change = permission_change(principal, labels, snapshot_id, session_id, everyone=everyone)
        return await self._usable()[1].ask(change, ChangeReport)

    async def status(self, *, full_memory: bool = False, history: bool = False) -> Status:
        """As `Client.status`."""
        return await self._usable()[1].ask(StatusRequest(full_memory, history), Status)

    async def events(self) -> AsyncListening:
        """As `Client.events`: `async for event in await client.events()`."""
        sidecar, _ = self._usable()
        listening = AsyncListening(sidecar, self.check_owner)
        self._listening.add(listening)
        return await listening.subscribed()

    async def end_of(self, session_id: str) -> End:
        """As `Client.end_of`."""
        return await self._usable()[1].ask(EndRequest(session_id), End)

    async def give_up(self, session_id: str) -> None:
        """As `Client.give_up`."""
        with contextlib.suppress(HintcellError):
            await self._usable()[1].ask(CloseRequest(session_id), End)

    async def close(self) -> None:
        """Close every session, and stop the manager if it is private."""
        if self._closed or self.is_of_parent:
            return
        self._closed = True
        for session in list(self._sessions):
            await session.close()
        for listening in list(self._listening):
            listening.close()
        if self._control is not None:
            self._control.close()
        if self._sidecar is not None:
            await asyncio.to_thread(self._sidecar.close)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that made the client; its connections are closed here."""
        return self._owner != os.getpid()

    def check_owner(self) -> None:
        """Raise HintcellError in a forked child."""
        if self.is_of_parent:
            raise HintcellError("this client was made before a fork: make a new AsyncClient in the child")

    def _usable(self) -> tuple[Sidecar, AsyncControl]:
        self.check_owner()
        if self._closed:
            raise HintcellError("this client is closed: make a new AsyncClient")
        sidecar = self._started()
        if self._control is None:
            raise HintcellError("this client has not started: use `async with AsyncClient() as client`")
        return sidecar, self._control

    def _started(self) -> Sidecar:
        if self._sidecar is None:
            raise HintcellError("this client has not started: use `async with AsyncClient() as client`")
        return self._sidecar


async def _knock(connection: socket.socket, sidecar: Sidecar, conversation: Conversation) -> None:
    while not reach(connection, sidecar.door):  # noqa: ASYNC110 - the kernel tells a blocking connect alone
        await asyncio.sleep(CROWDED_DOOR_S)
    with contextlib.suppress(ConnectionError):  # It may have answered before it heard us: read that.
        await asyncio.get_running_loop().sock_sendall(connection, conversation.knock())


async def _admission(connection: socket.socket, conversation: Conversation) -> Admitted:
    loop = asyncio.get_running_loop()
    gone = ManagerUnavailable("the manager is gone: make a new AsyncClient")
    while True:
        try:
            data = await loop.sock_recv(connection, READ_BYTES)
        except OSError as error:
            raise gone from error
        if not data:
            raise gone
        reply = conversation.receive(data)
        if isinstance(reply, Refused):
            raise OpenRefused(reply.reason, reply.message)
        if isinstance(reply, Admitted):
            return reply
