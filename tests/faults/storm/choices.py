"""Whom a step is about: drawn from whoever is there."""

from tests.faults.storm.crew import Agent
from tests.faults.storm.ledger import ChangeRecord, SessionRecord, Told
from tests.faults.storm.stage import Stage

PRINCIPALS = ("ann", "bob", "cem", "dai")
LABELS = ("repo:a", "repo:b", "team:x", "team:y")
SNAPSHOTS = ("monday", "tuesday", "wednesday")

_ANY_GRANT = 0.2


def harmed_agents(stage: Stage) -> list[Agent]:
    """The clients that may be harmed: all but the announcer."""
    return [agent for agent in stage.living_agents() if agent.name != "announcer"]


def agent(stage: Stage) -> Agent:
    """A client to open and read with."""
    return stage.rng.choice(harmed_agents(stage) or [stage.agents["announcer"]])


def told(stage: Stage) -> Told:
    """A grant: mostly the latest that no change of its principal or labels has outdated, sometimes any."""
    grants = stage.ledger.grants
    if stage.rng.random() < _ANY_GRANT:
        return stage.rng.choice(grants)
    for one in reversed(grants):
        if not any(_outdates(change, one) for change in stage.ledger.changes):
            return one
    return grants[-1]


def _outdates(change: ChangeRecord, one: Told) -> bool:
    return (
        change.session_id is None
        and (change.returned is None or change.returned > one.began)
        and change.principal in {None, one.grant.principal}
        and (change.labels is None or bool(set(change.labels) & set(one.grant.labels)))
    )


def session(stage: Stage) -> SessionRecord | None:
    """An open session of a client."""
    sessions = [one for one in stage.ledger.open_sessions() if one.holder in stage.agents]
    return stage.rng.choice(sessions) if sessions else None


def living_session(stage: Stage) -> SessionRecord | None:
    """An open session, of whomever, whose process was not seen dead."""
    sessions = [one for one in stage.ledger.open_sessions() if one.key in stage.pidfds]
    return stage.rng.choice(sessions) if sessions else None
