"""Sessions of the pure table, opened and led into any state by the events that lead there."""

from hintcell_manager.grants import Grants
from hintcell_manager.protocol import GrantRequest, ManagerOptions, OpenRequest
from hintcell_manager.sessions import MAX_REMEMBERED_ENDS, Event, Instruction, Session, Sessions, State

PID = 4711


class Opening:
    """Sessions of one manager, and a short way to open one."""

    def __init__(self, options: ManagerOptions | None = None, *, max_ends: int = MAX_REMEMBERED_ENDS) -> None:
        self.grants = Grants()
        self.sessions = Sessions(self.grants, options, max_ends=max_ends)

    def open(self, principal: str = "alice", labels: tuple[str, ...] = (), snapshot_id: str = "s1") -> Session:
        grant = self.grants.grant(GrantRequest(principal, labels))
        return self.sessions.open(OpenRequest(grant, snapshot_id, limit=10), now=1.0)

    def running(self, pid: int = PID) -> Session:
        session = self.open()
        self.sessions.start_waiting()
        self.sessions.started(session, pid, 0.0)
        return session

    def ended(self) -> Session:
        session = self.running()
        self.exit(session, 0)
        return session

    def exit(self, session: Session, status: int | None, *, last_words: str = "") -> None:
        self.sessions.exited(session, status, now=9.0, last_words=last_words, peak=12_345)


# Each state, with each thing that is known in it: whether there is a pid, and whether an exit was observed.
_WAYS: dict[tuple[str, State], tuple[Event, ...]] = {
    ("admitted", State.ADMITTED): (),
    ("starting", State.STARTING): (Event.TURN,),
    ("running", State.RUNNING): (Event.TURN, Event.STARTED),
    ("ending before its fork", State.ENDING): (Event.TURN, Event.END),
    ("ending after its fork", State.ENDING): (Event.TURN, Event.STARTED, Event.END),
    ("ending, seen dead", State.ENDING): (Event.TURN, Event.STARTED, Event.DIED),
    ("ended before its turn", State.ENDED): (Event.END,),
    ("ended without a fork", State.ENDED): (Event.TURN, Event.START_FAILED),
    ("ended after running", State.ENDED): (Event.TURN, Event.STARTED, Event.EXITED),
}
SITUATIONS = {name: state for name, state in _WAYS}  # noqa: C416 - dict() would not be typed


def led_into(situation: str) -> tuple[Opening, Session]:
    """A session in this situation."""
    opening = Opening()
    session = opening.open()
    state = SITUATIONS[situation]
    for event in _WAYS[situation, state]:
        tell(opening, session, event)
    return opening, session


def tell(opening: Opening, session: Session, event: Event) -> list[Instruction]:
    """Let the event happen to the session, and return what must be done."""
    sessions = opening.sessions
    match event:
        case Event.TURN:
            return sessions.start_waiting()
        case Event.STARTED:
            return sessions.started(session, PID, 0.0)
        case Event.START_FAILED:
            return sessions.start_failed(session, "no process is left", now=5.0)
        case Event.END:
            return sessions.end(session, "lifetime", "it is over", now=6.0)
        case Event.DIED:
            sessions.died(session, now=7.0)
        case Event.EXITED:
            opening.exit(session, 0)
    return []
