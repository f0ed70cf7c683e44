"""The manager's service: visitors at the door, control requests, and stopping.

Decides nothing about sessions or grants (`sessions`, `grants`), and starts no worker itself (`workers`).
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import time
from typing import Final

from hintcell_manager.control import ControlEndpoint
from hintcell_manager.door import Door, answer
from hintcell_manager.grants import Grants, InvalidRequestError, check_change
from hintcell_manager.journal import Journal
from hintcell_manager.linux import allow_all_descriptors, become_subreaper
from hintcell_manager.memory import ProcessReader
from hintcell_manager.protocol import (
    Attach,
    Attached,
    ChangeReport,
    CloseRequest,
    ControlReply,
    ControlRequest,
    DoorRequest,
    End,
    EndedSession,
    EndRequest,
    Failure,
    GrantRequest,
    ManagerOptions,
    Memory,
    OpenRequest,
    PermissionChange,
    RefusalReason,
    Refused,
    SessionStatus,
    Status,
    StatusRequest,
)
from hintcell_manager.runtime import RuntimeDirectory
from hintcell_manager.sessions import OpenRefusedError, Sessions, State
from hintcell_manager.workers import CLIENT_GONE, DEATH_DEADLINE_S, Workers

# How long a question about a living session's end may stay open.
END_QUESTION_DEADLINE_S: Final = 2.0


class Service:
    """One manager, from `start` to the end of `serve_until_stopped`."""

    def __init__(
        self, directory: RuntimeDirectory, options: ManagerOptions, *, lifeline: socket.socket | None = None
    ) -> None:
        """Prepare a manager.

        Args:
            directory: where its sockets will be.
            options: how it shall run.
            lifeline: a connection to the client that started it, whose end is the manager's end too.
        """
        self._directory = directory
        self._options = options
        self._lifeline = lifeline
        self._loop = asyncio.get_running_loop()
        self._started_at = time.monotonic()
        self._reader = ProcessReader(os.getpid())
        self._grants = Grants()
        self._sessions = Sessions(self._grants, options)
        self._clients: set[str] = set()
        self._lifeline_watch: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def instance(self) -> str:
        """The name of this manager, new at every start."""
        return self._grants.instance

    def start(self) -> None:
        """Open the door and the control endpoint, and begin to load the template.

        Raises:
            OSError: a socket or process cannot be made.
        """
        become_subreaper()
        allow_all_descriptors()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # An inherited "ignore" would lose every exit status.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # And what is inherited as blocked would never arrive.
        self._control = ControlEndpoint(self._directory.control, self._directory.events, self.handle)
        self._journal = Journal(self._control.publish)
        self._workers = Workers(self._options, self._sessions, self._journal)
        self._workers.start()
        self._door = Door(self._directory.door, self._visit)
        if self._lifeline is not None:
            self._lifeline.setblocking(False)
            self._lifeline_watch = self._loop.create_task(self._watch_lifeline(self._lifeline))

    def request_stop(self) -> None:
        """Begin to stop; `serve_until_stopped` does it."""
        self._stopping.set()

    async def serve_until_stopped(self) -> None:
        """Serve until `request_stop`, then end every session and leave nothing behind."""
        await self._stopping.wait()
        await self._door.close()
        await self._workers.end(self._sessions.live(), "manager_stopped", "the manager was stopped")
        await self._workers.stop()
        if self._lifeline_watch is not None:
            self._lifeline_watch.cancel()
            await asyncio.gather(self._lifeline_watch, return_exceptions=True)
        await self._control.close()

    # --- at the door ---

    async def _visit(self, connection: socket.socket, request: DoorRequest) -> None:
        if isinstance(request, Attach):
            await self._attach(connection)
        else:
            self._open(connection, request)

    async def _attach(self, connection: socket.socket) -> None:
        client = secrets.token_hex(8)
        self._clients.add(client)
        try:
            with connection:
                if answer(connection, Attached(self.instance, os.getpid(), str(self._directory.path), client)):
                    with contextlib.suppress(ConnectionError):
                        while await self._loop.sock_recv(connection, 1024):
                            pass
        finally:
            self._clients.remove(client)
        # Its workers see that too, unless they are stopped, or busy with what nobody waits for any more.
        for session in self._sessions.live():
            if session.request.client == client:
                self._workers.perform(self._sessions.end(session, "completed", CLIENT_GONE, self._now()))

    async def _watch_lifeline(self, lifeline: socket.socket) -> None:
        await self._attach(lifeline)
        self.request_stop()

    def _open(self, connection: socket.socket, request: OpenRequest) -> None:
        if request.client is not None and request.client not in self._clients:
            self._turn_away(connection, request, "bad_request", CLIENT_GONE)
            return
        try:
            session = self._sessions.open(request, self._now())
        except OpenRefusedError as refusal:
            self._turn_away(connection, request, refusal.reason, str(refusal))
            return
        self._workers.open(session, connection)

    def _turn_away(self, connection: socket.socket, request: OpenRequest, reason: RefusalReason, message: str) -> None:
        answer(connection, Refused(reason, message))
        connection.close()
        self._journal.open_refused(reason, request.grant.principal)

    # --- control ---

    async def handle(self, request: ControlRequest) -> ControlReply:
        """Answer a control request, from wherever it came."""
        try:
            match request:
                case GrantRequest():
                    return self._grants.grant(request)
                case PermissionChange():
                    return await self._permission_changed(request)
                case StatusRequest():
                    return self.status(request)
                case EndRequest():
                    return await self._end_of(request.session_id)
                case CloseRequest():
                    session = self._sessions.find(request.session_id)
                    await self._workers.end([] if session is None else [session], "completed", "its client gave it up")
                    return await self._end_of(request.session_id)
        except InvalidRequestError as error:
            return Failure(str(error))

    async def _permission_changed(self, change: PermissionChange) -> ControlReply:
        check_change(change)
        arrived = self._now()
        epoch = self._grants.record(change)
        matching = self._sessions.matching(change)
        undead = await self._workers.end(matching, "permission_changed", "permissions changed")
        if undead:
            return Failure(
                f"{len(undead)} of {len(matching)} processes did not die within {DEATH_DEADLINE_S:g} s: "
                "they can deliver nothing to a client that checks, but they exist"
            )
        ended = tuple(
            EndedSession(session.id, session.pid, max(0.0, (session.died_at or arrived) - arrived))
            for session in matching
        )
        took_s = self._now() - arrived
        self._journal.permission_changed(len(ended), took_s)
        return ChangeReport(epoch, ended, took_s)

    def status(self, request: StatusRequest) -> Status:
        """What the manager holds now."""
        now = self._now()
        full = request.full_memory
        template_pid = self._workers.template_pid
        return Status(
            instance=self.instance,
            pid=os.getpid(),
            epoch=self._grants.epoch,
            uptime_s=time.monotonic() - self._started_at,
            options=self._options,
            sessions=tuple(
                SessionStatus(
                    session_id=cell.session.id,
                    state=cell.session.state.value,
                    principal=cell.session.request.grant.principal,
                    labels=cell.session.request.grant.labels,
                    snapshot_id=cell.session.request.snapshot_id,
                    pid=cell.session.pid,
                    age_s=now - cell.session.admitted_at,
                    memory=cell.reader.memory(full=full) if cell.reader else Memory("gone"),
                    uss_bytes=cell.session.uss_bytes,
                    cpu_s=cell.reader.cpu_s() if cell.reader else None,
                    history=tuple(cell.sampler.history) if request.history else (),
                )
                for cell in self._workers.cells.values()
            ),
            memory=self._reader.memory(full=full),
            template_pid=template_pid,
            template_memory=None if template_pid is None else ProcessReader(template_pid).memory(full=full),
            retired_templates=len(self._workers.retired_pids),
            opened=self._journal.opened,
            ended=dict(self._journal.ended),
            refused=dict(self._journal.refused),
            recent_ends=self._journal.recent_ends(),
            cpu_s=self._reader.cpu_s() or 0.0,
        )

    async def _end_of(self, session_id: str) -> ControlReply:
        session = self._sessions.find(session_id)
        if session is None:
            return Failure("no such session is remembered: it ended long ago, or another manager had it")
        if (cell := self._workers.cells.get(session.token)) is not None:
            await asyncio.wait([cell.ended], timeout=END_QUESTION_DEADLINE_S)
        if session.state is not State.ENDED or session.reason is None:
            return Failure("the session has not ended")
        return End(
            session_id=session.id,
            reason=session.reason,
            message=session.message,
            exit_status=session.exit_status,
            stderr_tail=session.last_words if session.reason == "crashed" else "",
            peak_rss_bytes=session.peak_rss_bytes,
        )

    def _now(self) -> float:
        return self._loop.time()
