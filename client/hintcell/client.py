"""`Client`: opens sessions through a manager, and asks it what it knows.

Covers deadlines, threads, forks and the opening of a session. Does not cover reading one (`session`), nor what the
bytes mean (`conversation`).
"""

import contextlib
import os
import socket
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from hintcell.control import Control, as_labels, hung_up, permission_change
from hintcell.conversation import Conversation
from hintcell.errors import DeadlineExceeded, HintcellError, ManagerUnavailable, OpenRefused
from hintcell.listening import Listening
from hintcell.session import PAGE_DEADLINE_S, READ_BYTES, Session
from hintcell.sidecar import Sidecar, connect, left_s, new_socket
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

# A new manager's template takes a second to load, and the manager gives it thirty.
OPEN_DEADLINE_S: Final = 45.0


class Client:
    """Opens sessions through a manager: one of its own, or the one that serves a directory.

    All methods may be called from several threads. A client does not survive a fork: the child makes its own.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        options: ManagerOptions | None = None,
        page_deadline_s: float = PAGE_DEADLINE_S,
    ) -> None:
        """Start a private manager, or connect to a shared one.

        Args:
            directory: the shared manager's runtime directory (`hintcell serve --directory`); None starts a manager
                that serves this client alone and ends with it.
            options: how the private manager shall run; a shared one has its own.
            page_deadline_s: seconds that a page may take, from asking for it; 60 by default.

        Raises:
            ManagerUnavailable: it does not start, or none serves the directory.
        """
        self._owner = os.getpid()
        self._page_deadline_s = page_deadline_s
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._listening: weakref.WeakSet[Listening] = weakref.WeakSet()
        self._sidecar = Sidecar.open(None if directory is None else Path(directory), options)
        self._closed = False
        try:
            self._control = Control(self._sidecar.manager)
        except BaseException:
            self._sidecar.close()
            raise

    @property
    def directory(self) -> Path:
        """The manager's runtime directory."""
        return self._sidecar.directory

    @property
    def manager_pid(self) -> int:
        """The manager's process."""
        return self._sidecar.pid

    def grant(self, principal: str, labels: Sequence[str] = ()) -> Grant:
        """A grant as of now: ask for it before deciding what the principal may read.

        Args:
            principal: who will read, in your own naming, at most 1,024 bytes.
            labels: what the snapshot depends on, such as `repo:api`; a permission change can name any of them. At most
                256, each of 1,024 bytes.

        Raises:
            ControlFailed: a name is too long, or the like; the message says which.
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: it did not answer.
        """
        self._check_usable()
        return self._control.ask(GrantRequest(principal, as_labels(labels)), Grant)

    def open(
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
    ) -> Session:
        """Start a worker for one query over one snapshot, and send it the request.

        Args:
            grant: from `grant`, no older than the decision about `documents`.
            snapshot_id: names the snapshot, 1..128 bytes.
            query: 1..8,192 bytes.
            documents: everything that the principal may read: 1..4,096, at most 2 MiB of text, or what `limits` says.
            limit: candidates in a page, 1..4,096.
            identifier_hints: interleave a ranking by parts of identifiers; the first candidate stays.
            hints: a ranking from elsewhere to interleave; excludes `identifier_hints`.
            limits: raised ones, such as `Limits(max_documents=65_536, max_text_bytes=64 * 2**20,
                max_request_bytes=128 * 2**20)`; memory and time grow with what is sent.

        Raises:
            OpenRefused: the grant is outdated, or no worker can be started.
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: no worker was ready within 45 s.
            SessionEnded: the worker ended while the request was sent; RequestRejected if it refused it.
        """
        self._check_usable()
        conversation = Conversation(
            grant, snapshot_id, limit, identifier_hints=identifier_hints, limits=limits, client=self._sidecar.client
        )
        until = time.monotonic() + OPEN_DEADLINE_S
        connection = new_socket()
        try:
            try:
                _knock(connection, self._sidecar.door, conversation, until)
                line = conversation.request(query, documents, hints)  # Meanwhile, a worker is forked.
                admitted = _admission(connection, conversation, until)
            except TimeoutError:
                if time.monotonic() < until:  # A signal handler's.
                    raise
                raise DeadlineExceeded(f"no worker was ready within {OPEN_DEADLINE_S:g} s") from None
            session = Session(self, connection, conversation, admitted, limit, self._page_deadline_s)
            self._sessions.add(session)
            if self._closed:  # By another thread, which did not know this session yet.
                session.close()
            session.begin(line)
        except BaseException:
            connection.close()
            raise
        return session

    def permission_changed(
        self,
        *,
        principal: str | None = None,
        labels: Sequence[str] | None = None,
        snapshot_id: str | None = None,
        session_id: str | None = None,
        everyone: bool = False,
    ) -> ChangeReport:
        """End every session that matches all that is given, and outdate every such grant.

        When this returns, every matching worker process is dead, and no page of its session is delivered. It may be
        called by a client that opened none of them.

        Args:
            principal: of this principal.
            labels: with at least one of these labels.
            snapshot_id: over this snapshot.
            session_id: this session.
            everyone: all of them; excludes the others.

        Raises:
            ControlFailed: nothing was given, or a process did not die.
            ManagerUnavailable: the manager is gone, and its workers with it.
            DeadlineExceeded: it did not answer; the change may have been made or not: make it again.
        """
        self._check_usable()
        change = permission_change(principal, labels, snapshot_id, session_id, everyone=everyone)
        return self._control.ask(change, ChangeReport)

    def status(self, *, full_memory: bool = False, history: bool = False) -> Status:
        """The manager's sessions and their memory.

        Args:
            full_memory: add PSS and USS, which cost the kernel more.
            history: add what was seen of each session over its life.

        Raises:
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: it did not answer.
        """
        self._check_usable()
        return self._control.ask(StatusRequest(full_memory, history), Status)

    def events(self) -> Listening:
        """What the manager decides and sees, from now on, until it or this client is gone: to be iterated over.

        When this returns, nothing that happens is missed, whenever it is asked for. Who listens a thousand events
        behind loses some; what `status` counts is complete.

        Raises:
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: it did not answer.
        """
        self._check_usable()
        listening = Listening(self._sidecar, self.check_owner)
        self._listening.add(listening)
        if self._closed:  # By another thread, which did not know this one yet.
            listening.close()
        return listening

    def end_of(self, session_id: str) -> End:
        """How a session ended.

        Raises:
            ControlFailed: it has not, or is not remembered any more.
        """
        self._check_usable()
        return self._control.ask(EndRequest(session_id), End)

    def give_up(self, session_id: str) -> None:
        """End a session that does not answer, whatever its worker is doing (called by the session)."""
        with contextlib.suppress(HintcellError):  # Then its manager is gone, and the worker with it, or will be.
            self._control.ask(CloseRequest(session_id), End)

    def close(self) -> None:
        """Close every session, and stop the manager if it is private."""
        if self._closed or self.is_of_parent:
            return
        self._closed = True
        for session in list(self._sessions):
            session.close()
        for listening in list(self._listening):
            listening.close()
        self._control.close()
        self._sidecar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_usable(self) -> None:
        self.check_owner()
        if self._closed:
            raise HintcellError("this client is closed: make a new Client")

    @property
    def is_of_parent(self) -> bool:
        """Whether this process is a forked child of the one that made the client; its connections are closed here."""
        return self._owner != os.getpid()

    def check_owner(self) -> None:
        """Raise HintcellError in a forked child."""
        if self.is_of_parent:
            raise HintcellError("this client was made before a fork: make a new Client in the child")


def _knock(connection: socket.socket, door: Path, conversation: Conversation, until: float) -> None:
    connect(connection, door, until)
    try:
        connection.sendall(conversation.knock())
    except ConnectionError:  # It may have answered before it heard us: read that.
        if not hung_up(connection):  # A signal handler's.
            raise


def _admission(connection: socket.socket, conversation: Conversation, until: float) -> Admitted:
    gone = ManagerUnavailable("the manager is gone: make a new Client")
    while True:
        connection.settimeout(left_s(until))
        try:
            data = connection.recv(READ_BYTES)
        except ConnectionError as error:
            if not hung_up(connection):  # Likewise.
                raise
            raise gone from error
        if not data:
            raise gone
        reply = conversation.receive(data)
        if isinstance(reply, Refused):
            raise OpenRefused(reply.reason, reply.message)
        if isinstance(reply, Admitted):
            return reply
