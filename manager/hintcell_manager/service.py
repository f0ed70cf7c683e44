"""The manager's service: performs what the session table decides, on real processes and sockets.

Covers the event loop's side of everything: visitors at the door, control requests, the template and its
workers, and stopping. Decides nothing about sessions or grants itself.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import time
from collections.abc import Iterable
from typing import Final

from hintcell_manager.cells import Cell, Watch
from hintcell_manager.control import ControlEndpoint
from hintcell_manager.door import Door, answer, has_left
from hintcell_manager.fleet import Fleet, Reaped
from hintcell_manager.grants import Grants, InvalidRequestError, check_change
from hintcell_manager.journal import Journal
from hintcell_manager.linux import allow_all_descriptors, become_subreaper
from hintcell_manager.memory import ProcessReader
from hintcell_manager.protocol import (
    Admitted,
    Attach,
    Attached,
    ChangeReport,
    CloseRequest,
    ControlReply,
    ControlRequest,
    DoorRequest,
    End,
    EndedSession,
    EndReason,
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
from hintcell_manager.worker_process import WorkerProcess
from hintcell_worker.template_protocol import Exited, Fork, Forked, ForkFailed, FromTemplate, Ready

# A fork takes milliseconds; a template that does not answer for so long is stopped or stuck, and is replaced.
FORK_DEADLINE_S: Final = 10.0
# SIGKILL ends a process in milliseconds, unless the kernel is stuck with it: then we say so.
DEATH_DEADLINE_S: Final = 5.0
# After a worker's death its parent tells its status at once, or is stuck itself: then the kernel is asked.
STATUS_DEADLINE_S: Final = 1.0
# How long a question about a living session's end may stay open.
END_QUESTION_DEADLINE_S: Final = 2.0

_CLIENT_GONE: Final = "its client is gone"


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
        self._cells: dict[int, Cell] = {}
        self._clients: set[str] = set()
        self._watch = Watch(options, self._sessions, self._cells, self._perform)
        self._fleet = Fleet(
            options,
            on_ready=self._template_is_ready,
            on_message=self._template_said,
            on_buried=self._workers_died,
            on_failed=self._fail_admitted,
        )
        self._lifeline_watch: asyncio.Task[None] | None = None
        self._housekeeping: asyncio.Task[None] | None = None
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
        self._fleet.start()
        self._housekeeping = self._loop.create_task(self._keep_house())
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
        await self._end(self._sessions.live(), "manager_stopped", "the manager was stopped")
        await self._fleet.stop()
        for task in (self._housekeeping, self._lifeline_watch):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
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
                self._perform(self._sessions.end(session, "completed", _CLIENT_GONE, self._now()))

    async def _watch_lifeline(self, lifeline: socket.socket) -> None:
        await self._attach(lifeline)
        self.request_stop()

    def _open(self, connection: socket.socket, request: OpenRequest) -> None:
        if request.client is not None and request.client not in self._clients:
            self._turn_away(connection, request, "bad_request", _CLIENT_GONE)
            return
        try:
            session = self._sessions.open(request, self._now())
        except OpenRefusedError as refusal:
            self._turn_away(connection, request, refusal.reason, str(refusal))
            return
        self._cells[session.token] = Cell(session, connection, self._loop)
        if self._fleet.current is None:
            self._fleet.start()
        self._start_waiting()
        if session.state is State.ADMITTED:
            self._loop.call_later(self._options.open_wait_s, self._tick)

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
                    await self._end([] if session is None else [session], "completed", "its client gave it up")
                    return await self._end_of(request.session_id)
        except InvalidRequestError as error:
            return Failure(str(error))

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
        self._journal.permission_changed(len(ended), took_s)
        return ChangeReport(epoch, ended, took_s)

    def status(self, request: StatusRequest) -> Status:
        """What the manager holds now."""
        now = self._now()
        full = request.full_memory
        template_pid, retired = self._fleet.template_pid, self._fleet.retired_pids
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
                for cell in self._cells.values()
            ),
            memory=self._reader.memory(full=full),
            template_pid=template_pid,
            template_memory=None if template_pid is None else ProcessReader(template_pid).memory(full=full),
            retired_templates=len(retired),
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
                    self._journal.session_opened(session)
                case Refuse():
                    if self._let_go(cell, Refused(instruction.reason, instruction.message)):
                        self._journal.open_refused(instruction.reason, session.request.grant.principal)
                case Kill():
                    if cell.worker is not None:
                        cell.worker.kill()
            self._settle(session)

    def _start_worker(self, session: Session, cell: Cell) -> None:
        launcher, connection = self._fleet.current, cell.connection
        request, options = session.request, self._options
        try:
            if launcher is None or connection is None:
                raise ConnectionError("there is no template")
            if has_left(connection):
                raise ConnectionError(_CLIENT_GONE)
            connection.setblocking(True)  # The worker shares this setting with us, and reads without an event loop.
            tail, stderr = StderrTail.open(self._loop)
            cell.worker = WorkerProcess(launcher, session.token, tail)
            try:
                fork = Fork(
                    session.token,
                    request.limit,
                    request.identifier_hints,
                    request.limits,
                    ranking_deadline_s=options.ranking_deadline_s,
                )
                launcher.fork(fork, connection.fileno(), stderr)
            finally:
                os.close(stderr)
        except OSError as error:
            message = f"cannot start a worker: {error.strerror or error}"
            self._perform(self._sessions.start_failed(session, message, self._now()))
            self._loop.call_soon(self._start_waiting)  # Those who wait behind it: nothing else will call them.
        else:
            cell.deadline = self._loop.call_later(FORK_DEADLINE_S, self._fleet.replace, launcher)

    def _let_go(self, cell: Cell, reply: Admitted | Refused) -> bool:
        """Answer the visitor and close our end, which must not keep a dead worker's connection open.

        Returns whether the visitor was still there.
        """
        if cell.connection is None:
            return False
        with cell.connection:
            is_there = answer(cell.connection, reply)
        cell.connection = None
        return is_there

    async def _end(self, sessions: list[Session], reason: EndReason, message: str) -> list[Session]:
        """End these sessions; the ones that are not dead by the deadline are returned."""
        waiting = [cell.dead for session in sessions if (cell := self._cells.get(session.token)) is not None]
        for session in sessions:
            self._perform(self._sessions.end(session, reason, message, self._now()))
        if waiting:
            await asyncio.wait(waiting, timeout=DEATH_DEADLINE_S)
        for session in sessions:
            cell = self._cells.get(session.token)
            if cell is not None and cell.worker is not None and session.pid is None and not session.is_dead:
                # A template that does not even report a fork takes its unreported workers along.
                self._fleet.replace(cell.worker.launcher)
        if any(not session.is_dead for session in sessions):
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
            if session.refusal is None:  # Else it never was its client's.
                self._journal.session_ended(session, self._now() - session.admitted_at)

    # --- the template and its workers ---

    def _template_is_ready(self) -> None:
        self._journal.template("ready", self._fleet.template_pid)
        self._perform(self._sessions.start_waiting())

    def _template_said(self, message: FromTemplate, descriptors: list[int]) -> None:
        if isinstance(message, Ready):
            return
        pidfd = descriptors[0] if descriptors else None
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
            case Exited():
                self._exited(session, message.status, message.peak_rss_bytes)
        self._start_waiting()

    def _forked(self, session: Session, pid: int, pidfd: int | None) -> None:
        cell = self._cells[session.token]
        cell.reader = ProcessReader(pid)
        if pidfd is not None and cell.worker is not None:
            cell.worker.watch(pid, pidfd, lambda: self._died(session))
        self._perform(self._sessions.started(session, pid, self._now()))
        self._settle(session)

    def _died(self, session: Session) -> None:
        self._sessions.died(session, self._now())
        self._settle(session)
        self._loop.call_later(STATUS_DEADLINE_S, self._unreported, session)

    def _unreported(self, session: Session) -> None:
        """Its parent does not tell how a worker ended: it is stopped, or dead itself."""
        cell = self._cells.get(session.token)
        self._exited(session, cell.worker.unreaped_status() if cell and cell.worker else None, None)

    def _exited(self, session: Session, status: int | None, peak: int | None) -> None:
        cell = self._cells.get(session.token)
        if cell is None:
            return
        last_words = cell.worker.last_words() if cell.worker else ""
        self._sessions.exited(session, status, self._now(), last_words=last_words, peak=peak)
        self._settle(session)

    def _workers_died(self, workers: dict[int, int | None], reaped: Reaped) -> None:
        for token, pid in workers.items():
            session = self._sessions.by_token(token)
            if session is None:
                continue
            if session.pid is None:
                self._perform(self._sessions.start_failed(session, "the template died", self._now()))
                self._settle(session)
            else:
                self._exited(session, *reaped.get(pid or 0, (None, None)))
        self._start_waiting()

    def _start_waiting(self) -> None:
        if self._fleet.current is not None:
            self._perform(self._sessions.start_waiting())

    def _fail_admitted(self, message: str) -> None:
        for session in self._sessions.live():
            if session.state is State.ADMITTED:
                self._perform(self._sessions.start_failed(session, message, self._now()))

    async def _keep_house(self) -> None:
        """Look at every session's memory and age, now and then."""
        while True:
            await asyncio.sleep(self._options.sample_interval_s)
            self._watch.look()
            self._tick()
            self._start_waiting()
            self._fleet.look_at_age()

    def _tick(self) -> None:
        self._perform(self._sessions.tick(self._now()))

    def _now(self) -> float:
        return self._loop.time()
