"""`AsyncClient` and `AsyncSession`: the asyncio shell around the conversation, with the names of the blocking one.

Covers sockets, deadlines, cancellation, and the check that the worker lives, which stands between every page that
was read and its delivery. What the bytes mean is `conversation`'s business.

Nothing here belongs to an event loop for longer than a call, so a client may be used from one loop after another.
A call that is cancelled leaves nothing behind: an open closes its connection, a page read closes its session.
"""

import asyncio
import contextlib
import os
import socket
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Self

from hintcell.client import BROKEN_OFF, OPEN_DEADLINE_S, PAGE_DEADLINE_S, READ_BYTES, ended
from hintcell.control import AsyncControl, as_labels, hung_up, permission_change
from hintcell.conversation import Conversation, Page
from hintcell.errors import (
    DeadlineExceeded,
    HintcellError,
    ManagerUnavailable,
    OpenRefused,
    SessionEnded,
)
from hintcell.listening import AsyncListening
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
            page_deadline_s: how long a page may take, from asking for it.
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
    ) -> "AsyncSession":
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


class AsyncSession:
    """`Session` for asyncio: `async for page in session`, `await session.page(cursor)`."""

    def __init__(
        self,
        client: AsyncClient,
        connection: socket.socket,
        conversation: Conversation,
        admitted: Admitted,
        limit: int,
        page_deadline_s: float,
    ) -> None:
        self.id: Final = admitted.session_id
        self.pid: Final = admitted.pid
        self._client = client
        self._connection = connection
        self._conversation = conversation
        self._limit = limit
        self._page_deadline_s = page_deadline_s
        self._lock = asyncio.Lock()
        self._first: Page | None = None
        self._end: SessionEnded | None = None

    async def begin(self, request: bytes) -> None:
        """Send the request (called by `AsyncClient.open`)."""
        async with self._one_at_a_time():
            await self._send(request)

    async def __aiter__(self) -> AsyncIterator[Page]:
        page = await self.page()
        yield page
        while page.next_cursor is not None:
            page = await self.page(page.next_cursor)
            yield page

    async def page(self, cursor: str | None = None, limit: int | None = None) -> Page:
        """As `Session.page`. Cancelled, it closes the session: half an answer cannot be taken back."""
        async with self._one_at_a_time():
            if self._first is None:
                self._first = await self._receive()
            self._check_open()
            if hung_up(self._connection):
                raise await self._ended()
            if cursor is None:
                return self._first
            await self._send(self._conversation.continuation(cursor, self._limit if limit is None else limit))
            return await self._receive()

    async def close(self) -> None:
        """End the session; its worker exits. Also wakes a task that waits for a page."""
        if self._client.is_of_parent:
            return
        if self._end is None:
            self._end = SessionEnded("completed", "the session was closed here")
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        async with self._lock:
            self._abandon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _abandon(self) -> None:
        """Close the connection at once; nothing received before counts any more."""
        self._conversation.over()
        self._connection.close()

    @contextlib.asynccontextmanager
    async def _one_at_a_time(self) -> AsyncGenerator[None, None]:
        """Hold the session for one exchange, within its deadline; whatever breaks the exchange off ends the session."""
        async with self._lock:
            self._check_open()
            if self._connection.fileno() < 0:  # It is over, and why could not be asked before.
                raise await self._ended()
            try:
                async with asyncio.timeout(self._page_deadline_s):
                    yield
            except TimeoutError:
                if self._connection.fileno() < 0:  # It was over, and only the reason took too long.
                    late = DeadlineExceeded(f"the manager did not answer within {self._page_deadline_s:g} s")
                    raise self._end or ended(late) from None
                self._end = SessionEnded("completed", "the session was closed here, because a page took too long")
                self._abandon()
                await self._client.give_up(self.id)
                raise DeadlineExceeded(
                    f"no page came within {self._page_deadline_s:g} s: the session is closed"
                ) from None
            except HintcellError:
                raise
            except BaseException:  # A cancellation, most of all.
                self._break_off()
                raise

    def _break_off(self) -> None:
        """As `Session._break_off`."""
        is_over = self._connection.fileno() < 0
        if not is_over and (self._first is None or self._conversation.is_waiting):
            self._end = self._end or SessionEnded("completed", BROKEN_OFF)
            self._abandon()

    async def _send(self, line: bytes) -> None:
        try:
            await asyncio.get_running_loop().sock_sendall(self._connection, line)
        except OSError as error:
            raise await self._ended() from error

    async def _receive(self) -> Page:
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await loop.sock_recv(self._connection, READ_BYTES)
            except OSError as error:
                raise await self._ended() from error
            if not data:
                raise await self._ended()
            page = self._conversation.receive(data)
            if isinstance(page, Page):
                self._check_open()
                if hung_up(self._connection):  # Promise I2: what came from a worker that is dead now is not delivered.
                    raise await self._ended()
                return page

    def _check_open(self) -> None:
        self._client.check_owner()
        if self._end is not None:
            raise self._end

    async def _ended(self) -> SessionEnded:
        """As `Session._ended`."""
        self._abandon()
        if self._end is not None:
            return self._end
        try:
            end = ended(await self._client.end_of(self.id))
        except HintcellError as error:
            end = ended(error)
        if end.reason != "unknown":
            self._end = end
        return end


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
