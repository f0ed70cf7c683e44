"""`Session`: one query's pages, read in a blocking way.

Covers the socket, deadlines, threads, and the check that the worker lives, which stands between every page that was
read and its delivery. What the bytes mean is `conversation`'s business.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Final, Protocol, Self

from hintcell.control import hung_up, stay_awake
from hintcell.conversation import Conversation, Page
from hintcell.errors import DeadlineExceeded, HintcellError, ManagerUnavailable, RequestRejected, SessionEnded
from hintcell.sidecar import left_s
from hintcell_manager.protocol import Admitted, End

# 2 MiB of text rank in a tenth of a second; a machine under load is given a minute.
PAGE_DEADLINE_S: Final = 60.0
READ_BYTES: Final = 256 * 1024
# How a session says that its caller broke off.
BROKEN_OFF: Final = "the session was closed here, by an interrupted read"


class Owner(Protocol):
    """What a session asks of the client that opened it."""

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that made the client."""
        ...

    def check_owner(self) -> None:
        """Raise HintcellError in a forked child."""
        ...

    def end_of(self, session_id: str) -> End:
        """How a session ended; raises HintcellError if that cannot be told."""
        ...

    def give_up(self, session_id: str) -> None:
        """End a session that does not answer."""
        ...


class Session:
    """One query's ranking, read page by page from its own process.

    Iterating yields every page from the first. `page` reads any page by its cursor. After the session's end each
    of them raises SessionEnded, and nothing that was read but not yet delivered is delivered. May be used from several
    threads; leaving its context (`with`) closes it.

    Attributes:
        id: names it, for `Client.end_of`, `Client.permission_changed` and `hintcell revoke --session`.
        pid: its worker's process.
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
        self._lock = threading.RLock()
        self._first: Page | None = None
        self._end: SessionEnded | None = None

    def begin(self, request: bytes) -> None:
        """Send the request (called by `Client.open`)."""
        self._send(request)

    def __iter__(self) -> Iterator[Page]:
        page = self.page()
        yield page
        while page.next_cursor is not None:
            page = self.page(page.next_cursor)
            yield page

    def page(self, cursor: str | None = None, limit: int | None = None) -> Page:
        """The page at `cursor`, or the first. Interrupted, it closes the session: half an answer cannot be taken back.

        Args:
            cursor: an earlier page's `next_cursor`; None is the first page, whose limit `open` has set.
            limit: candidates in this page, 1..4,096; None is the limit given to `open`.

        Raises:
            SessionEnded: the session is over, and why; RequestRejected if the worker refused the cursor or limit,
                which ends the session.
            DeadlineExceeded: the page took too long; the session is closed.
        """
        self._client.check_owner()
        with self._lock:
            try:
                return self._read(cursor, self._limit if limit is None else limit)
            except HintcellError:
                raise
            except BaseException:  # Raised by a signal's handler, or by what the caller gave.
                self._break_off()
                raise

    def close(self) -> None:
        """End the session; its worker exits. Also wakes a thread that waits for a page."""
        if self._client.is_of_parent:
            return
        if self._end is None:
            self._end = SessionEnded("completed", "the session was closed here")
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._conversation.over()
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, cursor: str | None, limit: int) -> Page:
        if self._first is None:
            self._first = self._receive()  # The worker answers in order.
        self._check_alive()
        if cursor is None:
            return self._first
        self._send(self._conversation.continuation(cursor, limit))
        return self._receive()

    def _break_off(self) -> None:
        """Close a session whose answer nobody takes any more; between two pages, nothing was broken off."""
        is_over = self._connection.fileno() < 0  # Then its end was being asked for, and the next call asks again.
        if not is_over and (self._first is None or self._conversation.is_waiting):
            self._end = self._end or SessionEnded("completed", BROKEN_OFF)
            self._conversation.over()
            self._connection.close()

    def _send(self, line: bytes) -> None:
        self._check_open()
        until = time.monotonic() + self._page_deadline_s
        self._connection.settimeout(self._page_deadline_s)
        try:
            self._connection.sendall(line)
        except TimeoutError:
            if time.monotonic() < until:  # A signal handler's.
                raise
            raise self._too_late() from None
        except OSError as error:
            if not hung_up(self._connection):  # Likewise.
                raise
            raise self._ended() from error

    def _receive(self) -> Page:
        self._check_open()
        until = time.monotonic() + self._page_deadline_s
        stay_awake(self._connection)
        while True:
            self._connection.settimeout(left_s(until))
            try:
                data = self._connection.recv(READ_BYTES)
            except TimeoutError:
                if time.monotonic() < until:  # A signal handler's.
                    raise
                raise self._too_late() from None
            except OSError as error:
                if not hung_up(self._connection):  # Likewise.
                    raise
                raise self._ended() from error
            if not data:
                raise self._ended()
            page = self._conversation.receive(data)
            if isinstance(page, Page):
                self._check_alive()
                return page

    def _check_open(self) -> None:
        self._client.check_owner()
        if self._end is not None:
            raise self._end
        if self._connection.fileno() < 0:  # It is over, and why could not be asked before.
            raise self._ended()

    def _check_alive(self) -> None:
        """Promise I2: what came from a worker that is dead now is not delivered."""
        self._check_open()
        if hung_up(self._connection):
            raise self._ended()

    def _too_late(self) -> HintcellError:
        self.close()
        self._client.give_up(self.id)
        return DeadlineExceeded(f"no page came within {self._page_deadline_s:g} s: the session is closed")

    def _ended(self) -> SessionEnded:
        """Close, and find out why the worker hung up; what could not be found out is asked again the next time."""
        self._conversation.over()
        self._connection.close()
        if self._end is not None:
            return self._end
        try:
            end = ended(self._client.end_of(self.id))
        except HintcellError as error:
            end = ended(error)
        if end.reason != "unknown":
            self._end = end
        return end


def ended(answer: End | HintcellError) -> SessionEnded:
    """What to raise for a session whose worker hung up, given the manager's answer or the failure to get one."""
    if isinstance(answer, ManagerUnavailable):
        return SessionEnded("manager_stopped", str(answer))
    if isinstance(answer, HintcellError):
        return SessionEnded("unknown", f"the worker hung up, and why is not known: {answer}")
    kind = RequestRejected if answer.reason == "rejected" else SessionEnded
    return kind(answer.reason, answer.message, exit_status=answer.exit_status, stderr_tail=answer.stderr_tail)
