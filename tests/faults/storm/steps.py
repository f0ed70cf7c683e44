"""The steps of a storm: what an agent, an operator or an accident may do at any moment, and how often.

A step says in a few words what it did, or None if it could not be done now. The ledger is told before it happens.
"""

import time
from collections.abc import Callable
from typing import Final

from tests.faults.storm import accidents, catalogs, choices
from tests.faults.storm.crew import Agent
from tests.faults.storm.ledger import ChangeRecord, SessionRecord
from tests.faults.storm.messages import (
    AskEnd,
    AskGrant,
    AskStatus,
    Cancel,
    Catalog,
    Change,
    Close,
    Fork,
    Open,
    Turn,
    Which,
)
from tests.faults.storm.stage import Stage
from tests.faults.storm.visits import Visits

# Each may have 60 MB of its own while it ranks; the machine has other things to do.
_MAX_OPEN: Final = 24

_SELECTORS: Final = ("principal", "labels", "snapshot_id", "session_id", "two", "everyone")

Step = Callable[[Stage], str | None]


def steps(visits: Visits) -> dict[str, tuple[float, Step]]:
    """Every step with its weight."""
    return {
        "grant": (9, _grant),
        "open": (15, _open_small),
        "open large": (4, _open_large),
        "open, worker misbehaves": (4, _open_and_misbehave),
        "open, cancel": (3, _open_and_cancel),
        "page": (34, _turn),
        "close": (7, _close),
        "change": (6, _change),
        "opens race change": (3.5, _burst),
        "ask": (3, _ask),
        "kill worker": (4, accidents.kill_worker),
        "stop worker": (3, accidents.stop_worker),
        "kill template": (2, accidents.kill_template),
        "stop template": (2, accidents.stop_template),
        "stop manager": (2, accidents.stop_manager),
        "stop client": (2, accidents.stop_client),
        "kill client": (0.7, accidents.kill_visitor),
        "starve": (2, accidents.starve),
        "starve manager": (1.5, lambda stage: accidents.starve_manager(stage, visits)),
        "client forks": (1, _fork),
        "noise at door": (5, visits.make_noise),
        "bad client": (6, visits.search),
    }


def take(stage: Stage, table: dict[str, tuple[float, Step]]) -> None:
    """Take one step that can be taken now."""
    names, weights = list(table), [weight for weight, _ in table.values()]
    while True:
        name = stage.rng.choices(names, weights)[0]
        stage.note(name)
        what = table[name][1](stage)
        if what is not None:
            stage.note(f"   {what}")
            stage.result.steps[name] = stage.result.steps.get(name, 0) + 1
            return


def _grant(stage: Stage) -> str:
    principal = stage.rng.choice(choices.PRINCIPALS)
    labels = tuple(stage.rng.sample(choices.LABELS, stage.rng.randrange(4)))
    agent = choices.agent(stage)
    agent.send(AskGrant(stage.number(), principal, labels))
    return f"{agent.name} asks for a grant for {principal} {labels}"


def _open(stage: Stage, agent: Agent | None = None, catalog: Catalog = "small", trigger: str = "") -> Open | None:
    if not stage.ledger.grants or len(stage.ledger.open_sessions()) >= _MAX_OPEN:
        return None
    agent = agent or choices.agent(stage)
    told = choices.told(stage)
    key = f"k{stage.number()}"
    snapshot_id = stage.rng.choice(choices.SNAPSHOTS)
    session = SessionRecord(key, agent.name, told, snapshot_id, catalog, trigger, time.monotonic())
    stage.ledger.sessions[key] = session
    if trigger == catalogs.CRASH:
        session.may_end("crashed", session.asked)
    query = catalogs.query(trigger)
    command = Open(stage.number(), key, told.grant, snapshot_id, query, catalog, stage.rng.random() < 0.3)
    agent.send(command)
    stage.note(f"   {agent.name} opens {key} {catalog} {trigger} for {told.grant.principal} epoch {told.grant.epoch}")
    return command


def _open_small(stage: Stage) -> str | None:
    return None if _open(stage) is None else "open"


def _open_large(stage: Stage) -> str | None:
    return None if _open(stage, catalog="large") is None else "open a catalog of megabytes"


def _open_and_misbehave(stage: Stage) -> str | None:
    triggers = [catalogs.FLOOD, catalogs.CRASH, catalogs.PAUSE]
    if stage.plan.options == "ranking_deadline":
        triggers += [catalogs.HANG] * 3
    if stage.plan.options == "memory_limit":
        triggers += [catalogs.ALLOCATE] * 3
    trigger = stage.rng.choice(triggers)
    return None if _open(stage, trigger=trigger) is None else f"open with a worker's {trigger}"


def _open_and_cancel(stage: Stage) -> str | None:
    agents = [agent for agent in choices.harmed_agents(stage) if agent.kind == "asyncio"]
    if not agents:
        return None
    command = _open(stage, stage.rng.choice(agents))
    if command is None:
        return None
    session, agent = stage.ledger.sessions[command.key], stage.agents[stage.ledger.sessions[command.key].holder]

    def cancel() -> None:
        now = time.monotonic()
        session.may_end("completed", now)
        session.may_end("rejected", now)
        agent.send(Cancel(stage.number(), command.op))

    stage.loop.after(stage.rng.uniform(0, 0.03), cancel)
    return "open and cancel"


def _turn(stage: Stage) -> str | None:
    session = choices.session(stage)
    if session is None:
        return None
    agent = stage.agents[session.holder]
    which: Which = stage.rng.choices(("first", "next", "bad"), (4, 8, 0.5))[0]
    if which == "bad":
        session.may_end("rejected", time.monotonic())
    turn = Turn(stage.number(), session.key, which)
    agent.send(turn)
    if agent.kind == "asyncio" and stage.rng.random() < 0.05:
        session.may_end("completed", time.monotonic())
        session.is_closed = True
        agent.send(Cancel(stage.number(), turn.op))
    return f"{which} page of {session.key}"


def _close(stage: Stage) -> str | None:
    session = choices.session(stage)
    if session is None:
        return None
    agent = stage.agents[session.holder]
    close(stage, agent, session)
    return f"close {session.key}"


def close(stage: Stage, agent: Agent, session: SessionRecord) -> None:
    """Have the session's client close it."""
    session.is_closed = True
    session.may_end("completed", time.monotonic())
    agent.send(Close(stage.number(), session.key))


def _change(stage: Stage) -> str:
    rng = stage.rng
    selectors = rng.choices(
        ("principal", "labels", "snapshot_id", "session_id", "two", "everyone"), (5, 4, 4, 4, 4, 1)
    )[0]
    session = choices.session(stage)
    change = ChangeRecord(None, None, None, None, selectors == "everyone", time.monotonic())
    if selectors in {"principal", "two"}:
        change.principal = rng.choice(choices.PRINCIPALS)
    if selectors == "labels" or (selectors == "two" and rng.random() < 0.5):
        change.labels = tuple(rng.sample(choices.LABELS, rng.randrange(1, 3)))
    elif selectors in {"snapshot_id", "two"}:
        change.snapshot_id = rng.choice(choices.SNAPSHOTS)
    if selectors == "session_id":
        change.session_id = session.id if session else "0" * 16
    announce(stage, change, rng.choice(stage.living_agents()))
    return f"permissions change by {selectors}"


def announce(stage: Stage, change: ChangeRecord, agent: Agent) -> None:
    """Have a client announce this change."""
    stage.ledger.changes.append(change)
    watched = tuple(
        session.worker
        for session in stage.ledger.sessions.values()
        if session.worker is not None and session.opened is not None and change.names(session)
    )
    command = Change(
        *(stage.number(), change.principal, change.labels, change.snapshot_id, change.session_id, change.everyone),
        watched,
    )
    stage.observer.changes[command.op] = change
    agent.send(command)


def _burst(stage: Stage) -> str | None:
    """Opens, and a change that races them."""
    opens = [_open(stage) for _ in range(stage.rng.randrange(2, 6))]
    if None in opens:
        return None
    change = ChangeRecord(stage.rng.choice(choices.PRINCIPALS), None, None, None, everyone=False, began=0.0)
    change.everyone = stage.rng.random() < 0.4
    if change.everyone:
        change.principal = None

    def announce_it() -> None:
        change.began = time.monotonic()
        announce(stage, change, stage.agents["announcer"])

    stage.loop.after(stage.rng.uniform(0, 0.02), announce_it)
    return f"{len(opens)} opens that race a change"


def _fork(stage: Stage) -> str:
    agent = choices.agent(stage)
    agent.send(Fork(stage.number()))
    return f"{agent.name} forks a child"


def _ask(stage: Stage) -> str:
    agent = choices.agent(stage)
    sessions = [session for session in stage.ledger.sessions.values() if session.id]
    if sessions and stage.rng.random() < 0.5:
        agent.send(AskEnd(stage.number(), stage.rng.choice(sessions).id))
        return "ask for an end"
    agent.send(AskStatus(stage.number()))
    return "ask for the status"
