"""The workers of all sessions: performs what the session table decides, on real processes and connections.

Covers the template and its forks, answers to visitors who wait for a worker, deaths, and the regular look at everything
that lives. Decides nothing about sessions itself.
"""

import asyncio
import os
import socket
from collections.abc import Iterable, Mapping
from typing import Final

from hintcell_manager.cells import Cell, Watch
from hintcell_manager.door import answer, has_left
from hintcell_manager.fleet import Fleet, Reaped
from hintcell_manager.journal import Journal
from hintcell_manager.memory import ProcessReader
from hintcell_manager.protocol import Admitted, EndReason, ManagerOptions, Refused
from hintcell_manager.sessions import Admit, Instruction, Kill, Refuse, Session, Sessions, StartWorker, State
from hintcell_manager.stderr_tail import StderrTail
from hintcell_manager.worker_process import WorkerProcess
from hintcell_worker.template_protocol import Exited, Fork, Forked, ForkFailed, FromTemplate, Ready

# A fork takes milliseconds; a template that does not answer for so long is stopped or stuck, and is replaced.
FORK_DEADLINE_S: Final = 10.0
# SIGKILL ends a process in milliseconds, unless the kernel is stuck with it: then we say so.
DEATH_DEADLINE_S: Final = 5.0
# After a worker's death its parent tells its status at once, or is stuck itself: then the kernel is asked.
STATUS_DEADLINE_S: Final = 1.0

CLIENT_GONE: Final = "its client is gone"


class Workers:
    """Every living session's worker, from `start` to the end of `stop`."""

    def __init__(self, options: ManagerOptions, sessions: Sessions, journal: Journal) -> None:
        """Prepare; nothing is started yet.

        Args:
            options: how to start workers, and when to look at them.
            sessions: the table that decides.
            journal: is told what was done.
        """
        self._options = options
        self._sessions = sessions
        self._journal = journal
        self._loop = asyncio.get_running_loop()
        self._cells: dict[int, Cell] = {}
        self._watch = Watch(options, sessions, self._cells, self.perform)
        self._fleet = Fleet(
            options,
            on_ready=self._template_is_ready,
            on_message=self._template_said,
            on_buried=self._workers_died,
            on_failed=self._fail_admitted,
        )
        self._housekeeping: asyncio.Task[None] | None = None

    @property
    def cells(self) -> Mapping[int, Cell]:
        """What is held for each living session, by its token."""
        return self._cells

    @property
    def template_pid(self) -> int | None:
        """The process that workers are forked from, if there is one."""
        return self._fleet.template_pid

    @property
    def retired_pids(self) -> list[int]:
        """Templates that were replaced and still have workers."""
        return self._fleet.retired_pids

    def start(self) -> None:
        """Start the template, and to look around now and then.

        Raises:
            OSError: a process cannot be made.
        """
        self._fleet.start()
        self._housekeeping = self._loop.create_task(self._keep_house())

    async def stop(self) -> None:
        """Stop the template and the looking around; sessions have to be ended before."""
        await self._fleet.stop()
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            await asyncio.gather(self._housekeeping, return_exceptions=True)

    def open(self, session: Session, connection: socket.socket) -> None:
        """Give a new session a worker, as soon as there may be one; the visitor is answered then."""
        self._cells[session.token] = Cell(session, connection, self._loop)
        if self._fleet.current is None:
            self._fleet.start()
        self._start_waiting()
        if session.state is State.ADMITTED:
            self._loop.call_later(self._options.open_wait_s, self._tick)

    def perform(self, instructions: Iterable[Instruction]) -> None:
        """Do what the table decided."""
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

    async def end(self, sessions: list[Session], reason: EndReason, message: str) -> list[Session]:
        """End these sessions; the ones that are not dead by the deadline are returned."""
        waiting = [cell.dead for session in sessions if (cell := self._cells.get(session.token)) is not None]
        for session in sessions:
            self.perform(self._sessions.end(session, reason, message, self._now()))
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

    def _start_worker(self, session: Session, cell: Cell) -> None:
        launcher, connection = self._fleet.current, cell.connection
        request, options = session.request, self._options
        try:
            if launcher is None or connection is None:
                raise ConnectionError("there is no template")
            if has_left(connection):
                raise ConnectionError(CLIENT_GONE)
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
            self.perform(self._sessions.start_failed(session, message, self._now()))
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

    def _template_is_ready(self) -> None:
        self._journal.template("ready", self._fleet.template_pid)
        self.perform(self._sessions.start_waiting())

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
                self.perform(self._sessions.start_failed(session, message.message, self._now()))
                self._settle(session)
            case Exited():
                self._exited(session, message.status, message.peak_rss_bytes)
        self._start_waiting()

    def _forked(self, session: Session, pid: int, pidfd: int | None) -> None:
        cell = self._cells[session.token]
        cell.reader = ProcessReader(pid)
        if pidfd is not None and cell.worker is not None:
            cell.worker.watch(pid, pidfd, lambda: self._died(session))
        self.perform(self._sessions.started(session, pid, self._now()))
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
                self.perform(self._sessions.start_failed(session, "the template died", self._now()))
                self._settle(session)
            else:
                self._exited(session, *reaped.get(pid or 0, (None, None)))
        self._start_waiting()

    def _start_waiting(self) -> None:
        if self._fleet.current is not None:
            self.perform(self._sessions.start_waiting())

    def _fail_admitted(self, message: str) -> None:
        for session in self._sessions.live():
            if session.state is State.ADMITTED:
                self.perform(self._sessions.start_failed(session, message, self._now()))

    async def _keep_house(self) -> None:
        """Look at every session's memory and age, now and then."""
        while True:
            await asyncio.sleep(self._options.sample_interval_s)
            self._watch.look()
            self._tick()
            self._start_waiting()
            self._fleet.look_at_age()

    def _tick(self) -> None:
        self.perform(self._sessions.tick(self._now()))

    def _now(self) -> float:
        return self._loop.time()
