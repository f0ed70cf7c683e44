"""`AsyncSession`: `Session` for asyncio, with its names.

Covers the socket, deadlines, cancellation, and the check that the worker lives, which stands between every page that
was read and its delivery. What the bytes mean is `conversation`'s business.

A page that is cancelled closes its session: half an answer cannot be taken back.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, Protocol, Self

from hintcell.control import hung_up
from hintcell.conversation import Conversation, Page
from hintcell.errors import DeadlineExceeded, HintcellError, SessionEnded
from hintcell.session import BROKEN_OFF, READ_BYTES, ended
from hintcell_manager.protocol import Admitted, End


class Owner(Protocol):
    """What a session asks of the client that opened it; see `hintcell.session.Owner`."""

    @property
    def is_of_parent(self) -> bool: ...  # noqa: D102

    def check_owner(self) -> None: ...  # noqa: D102

    async def end_of(self, session_id: str) -> End: ...  # noqa: D102

    async def give_up(self, session_id: str) -> None: ...  # noqa: D102


class AsyncSession:
    """`Session` for asyncio: `async for page in session`, `await session.page(cursor)`.

    Attributes:
        id: as of `Session`.
        pid: as of `Session`.
    """

    def __init__(
        self,
        client: Owner,
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
