"""Turns what agents tell into facts of the ledger, and judges each by what is known at that moment."""

from collections.abc import Callable

from tests.faults.storm import figures, verdicts
from tests.faults.storm.catalogs import SECRET
from tests.faults.storm.crew import Agent, Pending
from tests.faults.storm.ledger import ChangeRecord, Ledger, SessionRecord, Told
from tests.faults.storm.messages import (
    AskEnd,
    Change,
    Changed,
    Ended,
    EndTold,
    Failed,
    Foreign,
    Granted,
    Open,
    Opened,
    Outcome,
    PageSeen,
    Refused,
    Turn,
)
from tests.faults.storm.processes import is_alive

Violate = Callable[[str, str], None]


class Observer:
    """What is seen of one round."""

    def __init__(
        self, ledger: Ledger, result: figures.Result, violate: Violate, watch: Callable[[SessionRecord], None]
    ) -> None:
        """`watch` is called for every session that has a process to be watched."""
        self._ledger = ledger
        self._result = result
        self._violate = violate
        self._watch = watch
        self.changes: dict[int, ChangeRecord] = {}

    def outcome(self, agent: Agent, pending: Pending, outcome: Outcome) -> None:
        """Take what came of one command."""
        command, result = pending.command, outcome.result
        if SECRET in str(getattr(result, "message", "")):
            self._violate(figures.TEXTS, f"{type(result).__name__} of {type(command).__name__}: {result}")
        key = command.key if isinstance(command, Open | Turn) else ""
        session = self._ledger.sessions.get(key)
        if isinstance(command, Open) and session is not None:
            session.began, session.ended_open = outcome.began, outcome.ended
        match result:
            case Granted():
                self._ledger.grants.append(Told(result.grant, outcome.began, outcome.ended))
            case Opened() if session is not None:
                self.opened(session, result, outcome.began, outcome.ended)
            case PageSeen() if session is not None and isinstance(command, Turn):
                self._page(session, result, outcome.began, is_kept=bool(session.pages) and command.which == "first")
            case Changed() if isinstance(command, Change):
                self._changed(command, result, outcome)
            case Refused() if session is not None:
                self.refused(session, result.reason, outcome.ended)
            case Ended() if session is not None:
                self.ended(session, result.reason, result.message, outcome.ended)
            case EndTold() if isinstance(command, AskEnd):
                self._told(command.session_id, result, outcome)
            case Failed():
                self._failed(agent, pending, result, outcome)
            case Foreign():
                self._violate(
                    figures.ERRORS, f"{agent.name} {type(command).__name__}: {result.error}: {result.message}"
                )
            case _:
                pass

    def opened(self, session: SessionRecord, opened: Opened, began: float, ended: float) -> None:
        """A session is open."""
        session.opened, session.id = ended, opened.session_id
        session.worker, session.parent_pid = opened.worker, opened.parent_pid
        self._judge(figures.GRANTS, verdicts.opened(self._ledger, session, began))
        self._watch(session)
        self.is_over(session)

    def refused(self, session: SessionRecord, reason: str, ended: float) -> None:
        """A session was not opened."""
        self._count(self._result.refusals, reason)
        self._judge(figures.REASONS, verdicts.refusal(self._ledger, session, reason, ended))

    def ended(self, session: SessionRecord, reason: str, message: str, at: float) -> None:
        """A client was told that its session is over."""
        if verdicts.could_not_ask(self._ledger, session, message, at):
            return
        if not message.startswith(verdicts.CLOSED_HERE):
            if session.seen_end is None:
                self._count(self._result.ends, reason)
            session.seen_end = reason
        self._judge(figures.REASONS, verdicts.end(self._ledger, session, reason, message, at))

    def is_over(self, session: SessionRecord) -> bool:
        """I1: whether a change has ended this session for good; counts it as broken if its process lives."""
        if verdicts.over_since(self._ledger, session) is None:
            return False
        if session.worker is not None and is_alive(session.worker):
            self._violate(figures.ALIVE, f"{session.key}: process {session.worker.pid} lives after the change returned")
        return True

    def _page(self, session: SessionRecord, page: PageSeen, began: float, *, is_kept: bool) -> None:
        self._count(self._result.looks, "pages")
        session.pages = [*session.pages, began]
        if not is_kept:
            session.exchanges = [*session.exchanges, began]
        self._judge(figures.PAGES, verdicts.page(self._ledger, session, began))
        if page.foreign or not 0 <= page.offset < page.total:
            self._violate(figures.FOREIGN, f"{session.key}: {page}")

    def _changed(self, command: Change, changed: Changed, outcome: Outcome) -> None:
        record = self.changes[command.op]
        record.began, record.returned = outcome.began, outcome.ended
        for process in changed.survivors:
            self._violate(figures.ALIVE, f"process {process.pid} lived when the change returned")
        over = sum(self.is_over(session) for session in self._ledger.sessions.values())
        self._count(self._result.looks, "permission changes")
        self._result.looks["processes looked at after a change"] = (
            self._result.looks.get("processes looked at after a change", 0) + over + len(command.watched)
        )
        if changed.ended:
            slowest = self._result.slowest_s
            slowest["change"] = max(slowest.get("change", 0.0), changed.took_s)

    def _told(self, session_id: str, told: EndTold, outcome: Outcome) -> None:
        """What the manager says about an end, to somebody who is not the session's client."""
        for session in self._ledger.sessions.values():
            if session.id != session_id:
                continue
            self._count(self._result.looks, "ends as the manager tells them")
            self._judge(figures.REASONS, verdicts.end(self._ledger, session, told.reason, told.message, outcome.ended))
            if session.seen_end not in {None, told.reason, "manager_stopped"}:
                what = f"{session.key}: the client was told {session.seen_end}, others {told.reason} ({told.message})"
                self._violate(figures.REASONS, what)

    def _failed(self, agent: Agent, pending: Pending, failed: Failed, outcome: Outcome) -> None:
        command = pending.command
        if isinstance(command, AskEnd) and failed.error == "ControlFailed":
            return  # Not ended, or the manager has another answer for it: settling asks again.
        span = (pending.sent, outcome.ended)
        what = verdicts.failure(self._ledger, agent.name, failed.error, failed.message, span)
        self._judge(figures.ERRORS, what and f"{type(command).__name__} of {what}")

    def _judge(self, figure: str, what: str | None) -> None:
        if what is not None:
            self._violate(figure, what)

    def _count(self, counts: dict[str, int], name: str) -> None:
        counts[name] = counts.get(name, 0) + 1
