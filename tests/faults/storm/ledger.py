"""The model: what was asked for and done in a round, and when. No processes, no clocks; `verdicts` judges by it.

Every time is CLOCK_MONOTONIC. What takes time has two: a fact holds for certain only outside of them.
"""

import enum

import msgspec

from hintcell import Grant, ManagerOptions
from tests.faults.storm.messages import Catalog, Process


class Told(msgspec.Struct):
    """A grant that a client was given."""

    grant: Grant
    began: float
    ended: float


class ChangeRecord(msgspec.Struct):
    """A permission change; `returned` is None until it has, and stays so if it failed."""

    principal: str | None
    labels: tuple[str, ...] | None
    snapshot_id: str | None
    session_id: str | None
    everyone: bool
    began: float
    returned: float | None = None

    def names(self, session: "SessionRecord") -> bool:
        """Whether the session is among those that must end."""
        grant = session.told.grant
        return (
            self.principal in {None, grant.principal}
            and (self.labels is None or bool(set(self.labels) & set(grant.labels)))
            and self.snapshot_id in {None, session.snapshot_id}
            and self.session_id in {None, session.id}
        )


class Cause(msgspec.Struct, frozen=True):
    """Something done at this time that may end a session for this reason."""

    reason: str
    began: float


class Who(enum.Enum):
    """Whom a hindrance hinders."""

    MANAGER = "manager"
    TEMPLATE = "template"
    CLIENT = "client"


class Hindrance(msgspec.Struct):
    """Somebody was stopped, or had no free descriptor, for a while."""

    who: Who
    name: str  # of the client
    is_starved: bool
    began: float
    ended: float | None = None


class SessionRecord(msgspec.Struct):
    """One session, from the command to open it.

    Attributes:
        key: the storm's name for it.
        holder: the agent that opened it, or the raw visitor.
        told: its grant.
        snapshot_id: what it says that it ranks.
        catalog: how much it ranks.
        trigger: the word in its query that makes its worker misbehave; empty for none.
        asked: when it was commanded.
        began: when its client began to open it, if that is known more precisely.
        opened: when it was open; None if it was refused, or not yet.
        ended_open: when the open was answered, with whatever.
        id: the manager's name for it.
        worker: its process.
        parent_pid: the template that forked it; None if it was dead before anybody looked.
        died: when its death was seen by the round, a moment after it happened.
        causes: what was done to it alone.
        pages: when each delivered page was asked for.
        exchanges: when those were asked for that the worker had to answer; the first page is kept by the client.
        seen_end: the reason that its client was told, unless the client closed it itself.
        is_closed: whether its client was told to close it.
    """

    key: str
    holder: str
    told: Told
    snapshot_id: str
    catalog: Catalog
    trigger: str
    asked: float
    began: float = 0.0
    opened: float | None = None
    ended_open: float | None = None
    id: str = ""
    worker: Process | None = None
    parent_pid: int | None = None
    died: float | None = None
    causes: list[Cause] = []
    pages: list[float] = []
    exchanges: list[float] = []
    seen_end: str | None = None
    is_closed: bool = False

    def may_end(self, reason: str, began: float) -> None:
        """Note a cause."""
        self.causes = [*self.causes, Cause(reason, began)]


class Ledger:
    """Everything known of one round."""

    def __init__(self, options: ManagerOptions) -> None:
        self.options = options
        self.grants: list[Told] = []
        self.changes: list[ChangeRecord] = []
        self.sessions: dict[str, SessionRecord] = {}
        self.template_kills: list[tuple[int, float]] = []
        self.hindrances: list[Hindrance] = []
        self.manager_end_began: float | None = None

    def open_sessions(self) -> list[SessionRecord]:
        """Those that were opened and neither closed nor seen to end, oldest first."""
        return [
            session
            for session in self.sessions.values()
            if session.opened is not None and not session.is_closed and session.seen_end is None
        ]

    def hinder(self, who: Who, began: float, *, name: str = "", is_starved: bool = False) -> Hindrance:
        """Note that a hindrance has begun; its end is the caller's to set."""
        hindrance = Hindrance(who, name, is_starved, began)
        self.hindrances.append(hindrance)
        return hindrance
