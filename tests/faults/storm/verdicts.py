"""What may follow from what was done: each function says what is wrong, or None. Pure; the facts are the ledger's.

A reason is true if something that the round did, or an option, can have caused it before the session was dead. The
rules are as narrow as races allow: what began a moment after the death was seen can not have caused it.
"""

from collections.abc import Iterable
from typing import Final

from tests.faults.storm import catalogs
from tests.faults.storm.ledger import Ledger, SessionRecord, Who

# Between a death as the round saw it and the manager's notice of it, on a busy machine.
NOTICE_S: Final = 1.0
# How much earlier than its option says a time limit may seem to strike, for want of exact times.
EARLY_S: Final = 0.05
# What a hindrance may still cause after its end: full queues are worked off.
AFTERMATH_S: Final = 1.0

CLOSED_HERE: Final = "the session was closed here"
NOT_KNOWN: Final = "the worker hung up, and why is not known"


def over_since(ledger: Ledger, session: SessionRecord) -> float | None:
    """When the first permission change returned that must have ended this session; None if there was none.

    The change must have found the session, or a grant older than itself.
    """
    returns = [
        change.returned
        for change in ledger.changes
        if change.returned is not None
        and change.names(session)
        and (
            (change.session_id is None and session.told.ended <= change.began)
            or (session.opened is not None and session.opened <= change.began)
        )
    ]
    return min(returns, default=None)


def page(ledger: Ledger, session: SessionRecord, began: float) -> str | None:
    """I2: a page whose read began after a matching change had returned."""
    since = over_since(ledger, session)
    if since is not None and began > since:
        return f"{session.key}: a page was delivered that was asked for {began - since:.3f} s after the change returned"
    return None


def opened(ledger: Ledger, session: SessionRecord, began: float) -> str | None:
    """I3: a session opened under a grant that a change had outdated before."""
    for change in ledger.changes:
        if (
            change.returned is not None
            and change.session_id is None
            and change.names(session)
            and session.told.ended <= change.began
            and change.returned < began
        ):
            return f"{session.key}: opened under a grant older than a change that had returned"
    return None


def end(ledger: Ledger, session: SessionRecord, reason: str, message: str, asked_at: float) -> str | None:
    """I8: the reason that somebody was told at this time."""
    if message.startswith(CLOSED_HERE) and session.is_closed:
        return None
    possible = reasons(ledger, session, asked_at)
    if reason not in possible:
        return f"{session.key}: ended with {reason} ({message!r}), possible: {sorted(possible) or 'no end at all'}"
    if message.startswith("ranking took over") and not _may_rank_long(session):
        return f"{session.key}: ended with {message!r}, but its ranking took no time: its client was slow"
    return None


def could_not_ask(ledger: Ledger, session: SessionRecord, message: str, asked_at: float) -> bool:
    """Whether the client says that it does not know why, having had no descriptor left, or no manager, to ask."""
    return message.startswith(NOT_KNOWN) and (
        _is_hindered(ledger, {Who.CLIENT}, session.asked, asked_at, starved=True, name=session.holder)
        or _is_hindered(ledger, {Who.MANAGER}, session.asked, asked_at)
    )


def reasons(ledger: Ledger, session: SessionRecord, asked_at: float) -> set[str]:
    """The reasons for which the session may have ended, for all that is known at this time."""
    last = min(asked_at, _noticed(ledger, session.died)) if session.died is not None else asked_at
    possible = {cause.reason for cause in session.causes if cause.began <= last}
    if any(change.names(session) and change.began <= last for change in ledger.changes):
        possible.add("permission_changed")
    # Who asks when the manager is gone cannot be told more.
    if ledger.manager_end_began is not None and ledger.manager_end_began <= asked_at:
        possible.add("manager_stopped")
    if any(
        began <= last and session.parent_pid in {None, pid}
        for pid, began in ledger.template_kills
        if began >= session.asked
    ):
        possible.add("crashed")
    if _is_hindered(ledger, {Who.MANAGER, Who.TEMPLATE}, session.asked, session.opened or last, starved=True):
        possible.add("crashed")
    return possible | _by_options(ledger, session, last)


def must_end(ledger: Ledger, session: SessionRecord) -> bool:
    """Whether the session ends sooner or later though nobody does anything about it."""
    options = ledger.options
    return (
        options.idle_timeout_s is not None
        or options.lifetime_s is not None
        or (options.memory_limit_bytes is not None and session.trigger == catalogs.ALLOCATE)
        or session.trigger == catalogs.CRASH
        or over_since(ledger, session) is not None
    )


def refusal(ledger: Ledger, session: SessionRecord, reason: str, ended: float) -> str | None:
    """I8 for opens that were refused."""
    options = ledger.options
    match reason:
        case "permission_changed":
            is_true = any(
                change.session_id is None
                and change.names(session)
                and change.began <= ended
                and (change.returned is None or change.returned >= session.told.began)
                for change in ledger.changes
            )
        case "cannot_start":
            is_true = (
                any(session.asked - AFTERMATH_S <= began <= ended for _, began in ledger.template_kills)
                or _is_hindered(ledger, {Who.MANAGER, Who.TEMPLATE}, session.asked, ended)
                or _has_ended(ledger, ended)
            )
        case "too_many_sessions":
            is_true = options.max_sessions is not None or options.max_sessions_per_principal is not None
        case "memory_budget":
            is_true = options.memory_budget_bytes is not None
        case "manager_stopped":
            is_true = _has_ended(ledger, ended)
        case _:
            is_true = False
    return None if is_true else f"{session.key}: refused with {reason}, which nothing has caused"


def failure(ledger: Ledger, client: str, error: str, message: str, span: tuple[float, float]) -> str | None:
    """An error of hintcell's own family, where nothing of a session was told."""
    began, ended = span
    hindered = _is_hindered(ledger, {Who.MANAGER}, began, ended, starved=True) or _is_hindered(
        ledger, {Who.CLIENT}, began, ended, starved=True, name=client
    )
    match error:
        case "ManagerUnavailable":
            is_true = hindered or _has_ended(ledger, ended)
        case "ControlFailed":
            is_true = hindered or "client was closed" in message
        case "HintcellError":
            is_true = "client is closed" in message
        case _:
            is_true = False
    return None if is_true else f"{client}: {error}: {message}"


def _by_options(ledger: Ledger, session: SessionRecord, last: float) -> set[str]:
    options, possible = ledger.options, set()
    age_s = last - session.asked
    asked_for = max((began for began in session.exchanges if began <= last), default=session.asked)
    if options.idle_timeout_s is not None and last - asked_for >= options.idle_timeout_s - EARLY_S:
        possible.add("idle_timeout")
    if options.lifetime_s is not None and age_s >= options.lifetime_s - EARLY_S:
        possible.add("lifetime")
    if options.memory_limit_bytes is not None and (session.catalog == "large" or session.trigger == catalogs.ALLOCATE):
        possible.add("memory_limit")
    deadline_s = options.ranking_deadline_s
    if deadline_s is not None and age_s >= deadline_s - EARLY_S:
        possible.add("crashed")
    return possible


def _may_rank_long(session: SessionRecord) -> bool:
    return session.catalog == "large" or session.trigger != ""


def _noticed(ledger: Ledger, died: float) -> float:
    """Until when the manager may have taken the session for living."""
    until = died + NOTICE_S
    for hindrance in ledger.hindrances:
        if hindrance.who is not Who.CLIENT and hindrance.began <= until:
            if hindrance.ended is None:
                return float("inf")
            if hindrance.ended >= died - NOTICE_S:
                until = max(until, hindrance.ended + NOTICE_S)
    return until


def _is_hindered(
    ledger: Ledger, who: Iterable[Who], began: float, ended: float, *, starved: bool = False, name: str = ""
) -> bool:
    return any(
        hindrance.who in who
        and hindrance.name == name
        and (hindrance.is_starved or not starved)
        and hindrance.began <= ended
        and (hindrance.ended is None or began <= hindrance.ended + AFTERMATH_S)
        for hindrance in ledger.hindrances
    )


def _has_ended(ledger: Ledger, at: float) -> bool:
    return ledger.manager_end_began is not None and ledger.manager_end_began <= at
