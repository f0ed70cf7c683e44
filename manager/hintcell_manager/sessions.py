"""The life of every session, as a table: events in, instructions out.

Covers which state follows which, what must be done then, and why a session ended. Does not cover doing it:
processes, sockets and clocks are the service's.

Rules:

* Every event may come late or twice. What `TABLE` does not list changes nothing.
* A session is dead when no process of it exists nor ever will: it never got one, or the exit was observed. A
  permission change is answered when everything that it matched is dead.
* `DIED` is an exit observed through a pidfd, `EXITED` the exit status, from whoever reaped the process or from the
  kernel when its parent does not tell; either may come first, and the status stays unknown if the parent was killed
  in between.
* A session that must end while its fork is under way is killed as soon as its pid is known.
* Whoever decides an end first gives the reason. Only when nobody did, the exit status tells it.
* A session starts when the template has a hand free and there is room (`room`); it waits for room, and not forever.
"""

import enum
import secrets
import signal
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hintcell_manager.grants import Grants, Subject, matches
from hintcell_manager.protocol import EndReason, ManagerOptions, OpenRequest, PermissionChange, RefusalReason
from hintcell_manager.room import Room
from hintcell_worker.protocol import NOTHING_ASKED
from hintcell_worker.template_protocol import EXIT_DONE, EXIT_REFUSED

# How a session ended can be asked for until so many more have ended.
MAX_REMEMBERED_ENDS: Final = 1_024

# Packets with descriptors that the template has not taken yet fill the socket between: far fewer than it holds.
MAX_UNREPORTED_STARTS: Final = 16

_KILLED_BY_ALARM: Final = -signal.SIGALRM  # The worker's own deadline for ranking.


# How often the kernel has switched to a process or away from it, and its processor time in seconds.
Activity = tuple[int, float]


class State(enum.Enum):
    """Where a session stands."""

    ADMITTED = "admitted"  # its grant counts; it waits for a template that has a hand free
    STARTING = "starting"  # the template was asked to fork its worker
    RUNNING = "running"  # the connection is the worker's
    ENDING = "ending"  # it must end, or its exit was observed: something about its process is still open
    ENDED = "ended"  # terminal: no process, and a reason


class Event(enum.Enum):
    """What can happen to a session."""

    TURN = "its turn"
    STARTED = "started"
    START_FAILED = "start failed"
    END = "end"
    DIED = "died"
    EXITED = "exited"


class Session:
    """One session. Only `Sessions` changes it."""

    def __init__(self, token: int, request: OpenRequest, now: float) -> None:
        self.id: Final = secrets.token_hex(8)
        self.token: Final = token
        self.request: Final = request
        self.admitted_at: Final = now
        self.state = State.ADMITTED
        self.pid: int | None = None
        self.started_at: float | None = None
        self.died_at: float | None = None
        self.reason: EndReason | None = None
        self.message = ""
        self.refusal: RefusalReason | None = None  # Why its client was told that there will be no session.
        self.exit_status: int | None = None
        self.last_words = ""
        self.peak_rss_bytes: int | None = None
        self.uss_bytes: int | None = None
        self.activity: Activity | None = None
        self.active_at = now

    @property
    def subject(self) -> Subject:
        """What a permission change is held against."""
        grant = self.request.grant
        return Subject(grant.principal, grant.labels, self.request.snapshot_id, self.id)

    @property
    def is_dead(self) -> bool:
        """Whether no process of this session exists, nor ever will."""
        return self.died_at is not None


class _Instruction(msgspec.Struct, frozen=True):
    """Something to do for a session, now."""

    session: Session


class StartWorker(_Instruction, frozen=True):
    """Ask the template for a worker on the session's connection."""


class Admit(_Instruction, frozen=True):
    """Tell the client that its worker runs, and let go of the connection."""


class Refuse(_Instruction, frozen=True):
    """Tell the client that there will be no session, and close the connection."""

    reason: RefusalReason
    message: str


class Kill(_Instruction, frozen=True):
    """Send SIGKILL to the session's worker."""


Instruction = StartWorker | Admit | Refuse | Kill


def _refuse(session: Session) -> Refuse:
    if session.refusal is None:
        match session.reason:
            case "permission_changed" | "manager_stopped" as reason:
                session.refusal = reason
            case _:
                session.refusal = "cannot_start"
    return Refuse(session, session.refusal, session.message)


class Step(msgspec.Struct, frozen=True):
    """A row of the table: the next state, and the instruction that goes with it."""

    state: State
    instruction: Callable[[Session], Instruction] | None = None


TABLE: Final[Mapping[tuple[State, Event], Step]] = {
    (State.ADMITTED, Event.TURN): Step(State.STARTING, StartWorker),
    (State.ADMITTED, Event.START_FAILED): Step(State.ENDED, _refuse),
    (State.ADMITTED, Event.END): Step(State.ENDED, _refuse),
    (State.STARTING, Event.STARTED): Step(State.RUNNING, Admit),
    (State.STARTING, Event.START_FAILED): Step(State.ENDED, _refuse),
    (State.STARTING, Event.END): Step(State.ENDING, _refuse),
    (State.RUNNING, Event.END): Step(State.ENDING, Kill),
    (State.RUNNING, Event.DIED): Step(State.ENDING),
    (State.RUNNING, Event.EXITED): Step(State.ENDED),
    (State.ENDING, Event.STARTED): Step(State.ENDING, Kill),
    (State.ENDING, Event.START_FAILED): Step(State.ENDED),
    (State.ENDING, Event.DIED): Step(State.ENDING),
    (State.ENDING, Event.EXITED): Step(State.ENDED),
}


class OpenRefusedError(Exception):
    """An open that starts nothing."""

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason: Final[RefusalReason] = reason


class Sessions:
    """All sessions of one manager."""

    def __init__(
        self, grants: Grants, options: ManagerOptions | None = None, *, max_ends: int = MAX_REMEMBERED_ENDS
    ) -> None:
        self._grants = grants
        self._options = options or ManagerOptions()
        self._max_ends = max_ends
        self._last_token = 0
        self._live: dict[int, Session] = {}
        self._waiting: dict[int, Session] = {}  # Those in ADMITTED, oldest first.
        self._unreported: set[int] = set()
        self._ended: OrderedDict[str, Session] = OrderedDict()

    def live(self) -> list[Session]:
        """Every session that has not ended, oldest first."""
        return list(self._live.values())

    def by_token(self, token: int) -> Session | None:
        """The live session that the template knows under this token."""
        return self._live.get(token)

    def find(self, session_id: str) -> Session | None:
        """A session by its id, live or among the last that ended."""
        if (ended := self._ended.get(session_id)) is not None:
            return ended
        return next((session for session in self._live.values() if session.id == session_id), None)

    def matching(self, change: PermissionChange) -> list[Session]:
        """The sessions that a change must end: those that match and are not dead."""
        return [session for session in self._live.values() if not session.is_dead and matches(change, session.subject)]

    def open(self, request: OpenRequest, now: float) -> Session:
        """Admit a session; it starts at its turn, see `start_waiting`.

        Raises:
            OpenRefusedError: the grant does not count.
        """
        if not self._grants.is_ours(request.grant):
            raise OpenRefusedError(
                "unknown_grant", "the grant is not from this manager, which may have restarted: ask for a new grant"
            )
        if self._grants.is_outdated(request.grant, request.snapshot_id):
            raise OpenRefusedError(
                "permission_changed",
                "permissions changed since the grant: ask for a new grant, then decide again what may be read",
            )
        self._last_token += 1
        session = Session(self._last_token, request, now)
        self._live[session.token] = session
        self._waiting[session.token] = session
        return session

    def start_waiting(self) -> list[Instruction]:
        """The template takes requests: start those that find room, as many as it may hold unanswered, oldest first."""
        instructions: list[Instruction] = []
        room = self._room()
        for session in list(self._waiting.values()):
            if len(self._unreported) >= MAX_UNREPORTED_STARTS:
                break
            if room.obstacle(session.request) is None:
                room.take(session.request, None)
                self._unreported.add(session.token)
                instructions += self._step(session, Event.TURN)
        return instructions

    def tick(self, now: float) -> list[Instruction]:
        """Time has passed: end what has lived long enough, and refuse what has waited for room long enough."""
        options = self._options
        instructions: list[Instruction] = []
        room = self._room()
        for session in list(self._waiting.values()):
            obstacle = room.obstacle(session.request)
            if obstacle is not None and now - session.admitted_at >= options.open_wait_s:
                session.refusal = obstacle.reason
                instructions += self.start_failed(session, obstacle.message, now)
        if options.lifetime_s is not None:
            for session in self.live():
                if session.started_at is not None and now - session.started_at >= options.lifetime_s:
                    message = f"the session reached its lifetime of {options.lifetime_s:g} s"
                    instructions += self.end(session, "lifetime", message, now)
        return instructions

    def active(self, session: Session, activity: Activity, now: float) -> list[Instruction]:
        """What the session's worker has done so far was read: who asks it something changes that."""
        if activity != session.activity:
            session.activity, session.active_at = activity, now
        idle_timeout_s = self._options.idle_timeout_s
        if idle_timeout_s is None or now - session.active_at < idle_timeout_s:
            return []
        return self.end(session, "idle_timeout", f"nothing was asked for {idle_timeout_s:g} s", now)

    def measured(self, session: Session, uss_bytes: int) -> bool:
        """The session's USS was read; true if it exceeds the limit, and should be read again."""
        session.uss_bytes = uss_bytes
        limit = self._options.memory_limit_bytes
        return limit is not None and uss_bytes > limit

    def limit_memory(self, session: Session, uss_bytes: int, now: float) -> list[Instruction]:
        """The session's USS was read once more: end it if it exceeds the limit again."""
        if not self.measured(session, uss_bytes):
            return []
        message = f"its USS of {uss_bytes} bytes exceeds the limit of {self._options.memory_limit_bytes}"
        return self.end(session, "memory_limit", message, now)

    def started(self, session: Session, pid: int, now: float) -> list[Instruction]:
        """The template forked the session's worker."""
        self._unreported.discard(session.token)
        if session.pid is not None or (session.state, Event.STARTED) not in TABLE:
            return []
        session.pid, session.started_at = pid, now
        return self._step(session, Event.STARTED)

    def start_failed(self, session: Session, message: str, now: float) -> list[Instruction]:
        """There is no worker for this session, and none will come."""
        self._unreported.discard(session.token)
        if session.pid is not None:
            return []
        _decide(session, "crashed", message)
        return self._step(session, Event.START_FAILED, now)

    def end(self, session: Session, reason: EndReason, message: str, now: float) -> list[Instruction]:
        """Somebody decided that the session must end."""
        if (session.state, Event.END) not in TABLE:
            return []
        _decide(session, reason, message)
        return self._step(session, Event.END, now)

    def died(self, session: Session, now: float) -> None:
        """The worker's exit was observed; its status is not known yet."""
        if session.pid is not None and session.died_at is None:
            session.died_at = now
            self._step(session, Event.DIED)

    def exited(self, session: Session, status: int | None, now: float, *, last_words: str, peak: int | None) -> None:
        """The worker was reaped with this status (None: nobody knows it); `last_words` is its stderr's tail."""
        if session.pid is None or session.state is State.ENDED:
            return
        session.exit_status, session.last_words, session.peak_rss_bytes = status, last_words, peak
        refusal = _refusal(last_words)
        if status == EXIT_DONE or (status == EXIT_REFUSED and refusal == NOTHING_ASKED):
            _decide(session, "completed", "")
        elif status == EXIT_REFUSED:
            _decide(session, "rejected", refusal)
        elif status == _KILLED_BY_ALARM:
            _decide(session, "crashed", f"ranking took over {self._options.ranking_deadline_s} s")
        else:
            _decide(session, "crashed", _describe(status))
        self._step(session, Event.EXITED, now)

    def _room(self) -> Room:
        room = Room(self._options)
        for session in self._live.values():
            if session.state is not State.ADMITTED and not session.is_dead:
                room.take(session.request, session.uss_bytes)
        return room

    def _step(self, session: Session, event: Event, now: float = 0.0) -> list[Instruction]:
        step = TABLE.get((session.state, event))
        if step is None:
            return []
        session.state = step.state
        self._waiting.pop(session.token, None)
        if step.state is State.ENDED:
            self._bury(session, now)
        return [] if step.instruction is None else [step.instruction(session)]

    def _bury(self, session: Session, now: float) -> None:
        if session.died_at is None:
            session.died_at = now
        del self._live[session.token]
        self._ended[session.id] = session
        while len(self._ended) > self._max_ends:
            self._ended.popitem(last=False)


def _decide(session: Session, reason: EndReason, message: str) -> None:
    if session.reason is None:
        session.reason, session.message = reason, message


def _refusal(last_words: str) -> str:
    return last_words.strip().rpartition("\n")[2].removeprefix("hintcell-worker: ")


def _describe(status: int | None) -> str:
    if status is None:
        return "the worker died, and its exit status is not known"
    if status < 0:
        return f"the worker was ended by signal {-status}"
    return f"the worker ended with status {status}"
