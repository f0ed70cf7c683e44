"""The manager's service: performs what the session table decides, on real processes and sockets.

Covers the event loop's side of everything: visitors at the door, control requests, the template and its
workers, and stopping. Decides nothing about sessions or grants itself.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Iterable
from typing import Final

from hintcell_manager import memory
from hintcell_manager.control import ControlEndpoint
from hintcell_manager.door import Door, answer
from hintcell_manager.grants import Grants, InvalidRequestError, check_change
from hintcell_manager.launcher import Launcher, WorkerProcess
from hintcell_manager.linux import become_subreaper
from hintcell_manager.protocol import (
    Admitted,
    Attach,
    Attached,
    ChangeReport,
    ControlReply,
    ControlRequest,
    DoorRequest,
    End,
    EndedSession,
    EndReason,
    EndRequest,
    Failure,
    Grant,
    GrantRequest,
    Memory,
    OpenRequest,
    PermissionChange,
    Refused,
    SessionStatus,
    Status,
    StatusRequest,
)
from hintcell_manager.runtime import RuntimeDirectory
from hintcell_manager.sessions import (
    Admit,
    Instruction,
    Kill,
    OpenRefusedError,
    Refuse,
    Session,
    Sessions,
    StartWorker,
    State,
)
from hintcell_manager.stderr_tail import StderrTail
from hintcell_worker.template_protocol import Exited, Fork, Forked, ForkFailed, FromTemplate, Ready

# Loading scikit-learn takes about a second, ten on a machine that is busy with other things.
TEMPLATE_DEADLINE_S: Final = 30.0
# A fork takes milliseconds; a template that does not answer for so long is stopped or stuck, and is replaced.
FORK_DEADLINE_S: Final = 10.0
# SIGKILL ends a process in milliseconds, unless the kernel is stuck with it: then we say so.
DEATH_DEADLINE_S: Final = 5.0
# After a worker's death its parent tells its status at once, or is stuck itself.
STATUS_DEADLINE_S: Final = 1.0
# How long a question about a living session's end may stay open.
END_QUESTION_DEADLINE_S: Final = 2.0

log = logging.getLogger("hintcell.manager")


class _Cell:
    """What the service holds for a live session: its connection until it is admitted, its process, who waits."""

    def __init__(self, connection: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.connection: socket.socket | None = connection
        self.worker: WorkerProcess | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.dead: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[None] = loop.create_future()


class Service:
    """One manager, from `start` to `stop`."""

    def __init__(self, directory: RuntimeDirectory, *, lifeline: socket.socket | None = None) -> None:
        """Prepare a manager.

        Args:
            directory: where its sockets will be.
            lifeline: a connection to the client that started it, whose end is the manager's end too.
        """
        self._lifeline = lifeline
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._started_at = time.monotonic()
        self._grants = Grants()
        self._sessions = Sessions(self._grants)
        self._cells: dict[int, _Cell] = {}
        self._launcher: Launcher | None = None
        self._template_is_ready = False
        self._template_deadline: asyncio.TimerHandle | None = None
        self._burial: asyncio.Task[None] | None = None
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
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # An inherited "ignore" would lose every exit status.
        self._door = Door(self._directory.door, self._visit)
        self._control = ControlEndpoint(self._directory.control, self._handle)
        self._start_template()
        if self._lifeline is not None:
            self._lifeline.setblocking(False)
            self._lifeline_watch = self._loop.create_task(self._watch_lifeline(self._lifeline))
        log.info("serving instance=%s pid=%d", self.instance, os.getpid())

    def request_stop(self) -> None:
        """Begin to stop; `serve_until_stopped` does it."""
        self._stopping.set()

    async def serve_until_stopped(self) -> None:
        """Serve until `request_stop`, then end every session and leave nothing behind."""
        await self._stopping.wait()
        await self._door.close()
        await self._end(list(self._sessions.live()), "manager_stopped", "the manager was stopped")
        if self._launcher is not None:
            self._template_gone(self._launcher)
        if self._burial is not None:
            await self._burial
        await self._control.close()
        if self._lifeline_watch is not None:
            self._lifeline_watch.cancel()
            await asyncio.gather(self._lifeline_watch, return_exceptions=True)
        log.info("stopped instance=%s", self.instance)

    # --- at the door ---

    async def _visit(self, connection: socket.socket, request: DoorRequest) -> None:
        if isinstance(request, Attach):
            await self._attach(connection)
        else:
            self._open(connection, request)

    async def _attach(self, connection: socket.socket) -> None:
        with connection:
            if answer(connection, Attached(self.instance, os.getpid(), str(self._directory.path))):
                with contextlib.suppress(ConnectionError):
                    while await self._loop.sock_recv(connection, 1024):
                        pass

    async def _watch_lifeline(self, lifeline: socket.socket) -> None:
        await self._attach(lifeline)
        self.request_stop()

    def _open(self, connection: socket.socket, request: OpenRequest) -> None:
        try:
            session = self._sessions.open(request, self._now())
        except OpenRefusedError as refusal:
            answer(connection, Refused(refusal.reason, str(refusal)))
            connection.close()
            log.info("refused reason=%s", refusal.reason)
            return
        self._cells[session.token] = _Cell(connection, self._loop)
        if self._template_is_ready:
            self._perform(self._sessions.start_waiting())
        elif self._launcher is None and self._burial is None:
            self._start_template()

    # --- control ---

    async def _handle(self, request: ControlRequest) -> ControlReply:
        try:
            match request:
                case GrantRequest():
                    return self._grant(request)
                case PermissionChange():
                    return await self._permission_changed(request)
                case StatusRequest():
                    return self._status(full_memory=request.full_memory)
                case EndRequest():
                    return await self._end_of(request.session_id)
        except InvalidRequestError as error:
            return Failure(str(error))

    def _grant(self, request: GrantRequest) -> Grant:
        return self._grants.grant(request)

    async def _permission_changed(self, change: PermissionChange) -> ControlReply:
        check_change(change)
        arrived = self._now()
        epoch = self._grants.record(change)
        matching = self._sessions.matching(change)
        undead = await self._end(matching, "permission_changed", "permissions changed")
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
        log.info("permission_changed epoch=%d ended=%d took_ms=%.1f", epoch, len(ended), took_s * 1000)
        return ChangeReport(epoch, ended, took_s)

    def _status(self, *, full_memory: bool) -> Status:
        now = self._now()
        launcher = self._launcher
        return Status(
            instance=self.instance,
            pid=os.getpid(),
            epoch=self._grants.epoch,
            uptime_s=now - self._started_at,
            sessions=tuple(
                SessionStatus(
                    session_id=session.id,
                    state=session.state.value,
                    principal=session.request.grant.principal,
                    labels=session.request.grant.labels,
                    snapshot_id=session.request.snapshot_id,
                    pid=session.pid,
                    age_s=now - session.admitted_at,
                    memory=memory.measure(session.pid, full=full_memory) if session.pid else Memory("gone"),
                )
                for session in self._sessions.live()
            ),
            memory=memory.measure(os.getpid(), full=full_memory),
            template_pid=launcher.pid if launcher else None,
            template_memory=memory.measure(launcher.pid, full=full_memory) if launcher else None,
        )

    async def _end_of(self, session_id: str) -> ControlReply:
        session = self._sessions.find(session_id)
        if session is None:
            return Failure("no such session is remembered: it ended long ago, or another manager had it")
        if (cell := self._cells.get(session.token)) is not None:
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

    # --- instructions ---

    def _perform(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            session = instruction.session
            cell = self._cells[session.token]
            match instruction:
                case StartWorker():
                    self._start_worker(session, cell)
                case Admit():
                    self._let_go(cell, Admitted(session.id, session.pid or 0))
                    log.info("opened session=%s pid=%d", session.id, session.pid or 0)
                case Refuse():
                    self._let_go(cell, Refused(instruction.reason, instruction.message))
                    log.info("refused session=%s reason=%s", session.id, instruction.reason)
                case Kill():
                    if cell.worker is not None:
                        cell.worker.kill()
            self._settle(session)

    def _start_worker(self, session: Session, cell: _Cell) -> None:
        launcher, connection = self._launcher, cell.connection
        request = session.request
        try:
            if launcher is None or connection is None:
                raise ConnectionError("there is no template")
            connection.setblocking(True)  # The worker shares this setting with us, and reads without an event loop.
            tail, stderr = StderrTail.open(self._loop)
            cell.worker = WorkerProcess(launcher, session.token, tail)
            try:
                launcher.fork(Fork(session.token, request.limit, request.identifier_hints), connection.fileno(), stderr)
            finally:
                os.close(stderr)
        except OSError as error:
            message = f"cannot start a worker: {error.strerror or error}"
            self._perform(self._sessions.start_failed(session, message, self._now()))
        else:
            cell.deadline = self._loop.call_later(FORK_DEADLINE_S, self._replace_template)

    def _let_go(self, cell: _Cell, reply: Admitted | Refused) -> None:
        """Answer the visitor and close our end, which must not keep a dead worker's connection open."""
        if cell.connection is not None:
            answer(cell.connection, reply)
            cell.connection.close()
            cell.connection = None

    async def _end(self, sessions: list[Session], reason: EndReason, message: str) -> list[Session]:
        """End these sessions; the ones that are not dead by the deadline are returned."""
        waiting = [self._cells[session.token].dead for session in sessions]
        for session in sessions:
            self._perform(self._sessions.end(session, reason, message, self._now()))
        if waiting:
            await asyncio.wait(waiting, timeout=DEATH_DEADLINE_S)
        if any(session.pid is None and not session.is_dead for session in sessions):
            # A template that does not even report a fork takes its unreported workers along.
            self._replace_template()
            await asyncio.wait(waiting, timeout=DEATH_DEADLINE_S)
        return [session for session in sessions if not session.is_dead]

    def _settle(self, session: Session) -> None:
        """Wake who waits for this session, and drop what is held for it, as far as its state allows."""
        cell = self._cells.get(session.token)
        if cell is None:
            return
        if session.is_dead and not cell.dead.done():
            cell.dead.set_result(None)
        if session.state not in {State.ADMITTED, State.STARTING} and cell.deadline is not None and session.pid:
            cell.deadline.cancel()
            cell.deadline = None
        if session.state is State.ENDED:
            if cell.deadline is not None:
                cell.deadline.cancel()
            if cell.connection is not None:
                cell.connection.close()
            if cell.worker is not None:
                cell.worker.close()
            del self._cells[session.token]
            cell.ended.set_result(None)
            log.info("ended session=%s reason=%s status=%s", session.id, session.reason, session.exit_status)

    # --- the template and its workers ---

    def _start_template(self) -> None:
        launcher: Launcher | None = None

        def gone() -> None:
            if launcher is not None:
                self._template_gone(launcher)

        try:
            launcher = Launcher(on_message=self._template_said, on_gone=gone)
        except OSError as error:
            self._fail_admitted(f"cannot start the template: {error.strerror}")
            return
        self._launcher = launcher
        self._template_deadline = self._loop.call_later(TEMPLATE_DEADLINE_S, self._replace_template)

    def _template_said(self, message: FromTemplate, descriptors: list[int]) -> None:
        pidfd = descriptors[0] if descriptors else None
        if isinstance(message, Ready):
            self._template_is_ready = True
            if self._template_deadline is not None:
                self._template_deadline.cancel()
            log.info("template ready pid=%d", self._launcher.pid if self._launcher else 0)
            self._perform(self._sessions.start_waiting())
            return
        session = self._sessions.by_token(message.token)
        if session is None:
            if pidfd is not None:
                os.close(pidfd)
            return
        match message:
            case Forked():
                self._forked(session, message.pid, pidfd)
            case ForkFailed():
                self._perform(self._sessions.start_failed(session, message.message, self._now()))
                self._settle(session)
                self._perform(self._sessions.start_waiting())
            case Exited():
                self._exited(session, message.status, message.peak_rss_bytes)

    def _forked(self, session: Session, pid: int, pidfd: int | None) -> None:
        worker = self._cells[session.token].worker
        if pidfd is not None and worker is not None:
            worker.watch(pidfd, lambda: self._died(session))
        self._perform(self._sessions.started(session, pid))
        self._settle(session)
        self._perform(self._sessions.start_waiting())

    def _died(self, session: Session) -> None:
        self._sessions.died(session, self._now())
        self._settle(session)
        self._loop.call_later(STATUS_DEADLINE_S, self._exited, session, None, None)

    def _exited(self, session: Session, status: int | None, peak: int | None) -> None:
        cell = self._cells.get(session.token)
        if cell is None:
            return
        last_words = cell.worker.last_words() if cell.worker else ""
        self._sessions.exited(session, status, self._now(), last_words=last_words, peak=peak)
        self._settle(session)

    def _replace_template(self) -> None:
        if self._launcher is not None:
            log.warning("template pid=%d does not answer: replacing it and its workers", self._launcher.pid)
            self._template_gone(self._launcher)

    def _template_gone(self, launcher: Launcher) -> None:
        if launcher is not self._launcher:
            return
        was_ready, self._template_is_ready, self._launcher = self._template_is_ready, False, None
        if self._template_deadline is not None:
            self._template_deadline.cancel()
        self._burial = self._loop.create_task(self._bury(launcher, was_ready=was_ready))

    async def _bury(self, launcher: Launcher, *, was_ready: bool) -> None:
        try:
            reaped = await launcher.bury()
        except TimeoutError:
            # What cannot be seen dead is not called dead: its sessions stay in ENDING.
            log.warning("template pid=%d or one of its workers does not die", launcher.pid)
        else:
            self._everybody_died(reaped)
        self._burial = None
        if self._stopping.is_set():
            return
        log.warning("template pid=%d is gone", launcher.pid)
        if was_ready:
            self._start_template()
        else:
            self._fail_admitted(f"the template did not start: {launcher.last_words.strip() or 'it said nothing'}")

    def _everybody_died(self, reaped: dict[int, tuple[int, int]]) -> None:
        for session in self._sessions.live():
            if session.state is State.ADMITTED:
                continue
            if session.pid is None:
                self._perform(self._sessions.start_failed(session, "the template died", self._now()))
                self._settle(session)
            else:
                self._exited(session, *reaped.get(session.pid, (None, None)))

    def _fail_admitted(self, message: str) -> None:
        for session in self._sessions.live():
            if session.state is State.ADMITTED:
                self._perform(self._sessions.start_failed(session, message, self._now()))

    def _now(self) -> float:
        return self._loop.time()
