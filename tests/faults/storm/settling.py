"""A quiet point: nobody is stopped, nothing is asked, no session is open. Whatever is left then was leaked."""

from collections import Counter
from typing import Final

from tests.faults.storm import figures, processes, steps, verdicts
from tests.faults.storm.ledger import SessionRecord
from tests.faults.storm.messages import AskEnd, AskStatus
from tests.faults.storm.stage import ANSWER_S, SOON_S, START_S, Stage
from tests.faults.storm.visits import Visits


def note_baselines(stage: Stage) -> None:
    """Note what everybody has open while there is no session."""
    for name, pid in _observed(stage).items():
        stage.baselines[name] = _steady(stage, pid)


def settle(stage: Stage, visits: Visits) -> None:
    """Bring the round to a quiet point, and look."""
    stage.note("settle")
    come_to_rest(stage, visits)
    stage.end_forked()
    _await_ends(stage)
    announcer = stage.agents["announcer"]
    for session in list(stage.ledger.sessions.values()):
        if session.holder in stage.agents and session.opened is not None:
            steps.close(stage, stage.agents[session.holder], session)
    _await_answers(stage)

    def is_idle() -> bool:
        stage.ask(announcer, AskStatus(stage.number()))
        status = stage.status
        return status is not None and not status.sessions and status.retired_templates == 0

    if not stage.loop.wait_until(is_idle, START_S):
        stage.violate(figures.HANGS, f"not idle after every session was closed: {stage.status}")
    stage.warm_up()
    for session in stage.ledger.sessions.values():
        if session.id:
            announcer.send(AskEnd(stage.number(), session.id))
    _await_answers(stage)
    _look_for_zombies(stage)
    _look_at_descriptors(stage)


def come_to_rest(stage: Stage, visits: Visits) -> None:
    """Continue whoever is stopped, wait for every answer, and let the raw visitors leave."""
    stage.loop.hurry()
    _await_answers(stage)
    visits.close()


def _await_ends(stage: Stage) -> None:
    """Whoever must end by itself does, while its client does nothing."""

    def due() -> list[SessionRecord]:
        sessions = stage.ledger.sessions.values()
        return [one for one in sessions if one.key in stage.pidfds and verdicts.must_end(stage.ledger, one)]

    if not stage.loop.wait_until(lambda: not due(), SOON_S):
        for session in due():
            stage.violate(figures.HANGS, f"{session.key} ({session.trigger}) was to end by itself, and has not")


def _await_answers(stage: Stage) -> None:
    def all_answered() -> bool:
        return not any(agent.pending for agent in stage.living_agents())

    if not stage.loop.wait_until(all_answered, ANSWER_S):
        for agent in stage.living_agents():
            for pending in agent.pending.values():
                stage.violate(figures.HANGS, f"{agent.name}: no answer within {ANSWER_S:g} s to {pending.command}")
            agent.pending.clear()


def _look_for_zombies(stage: Stage) -> None:
    parents = [stage.manager, *stage.templates()]

    def zombies() -> list[int]:
        seen = processes.everything()
        pids = {parent.pid for parent in parents if parent is not None}
        return [one.process.pid for one in seen if one.parent in pids and not one.is_alive]

    stage.result.looks["quiet points"] = stage.result.looks.get("quiet points", 0) + 1
    if not stage.loop.wait_until(lambda: not zombies(), SOON_S):
        for pid in zombies():
            stage.violate(figures.ZOMBIES, f"process {pid} is dead and not reaped")


def _look_at_descriptors(stage: Stage) -> None:
    for name in _observed(stage):
        wanted = stage.baselines[name]

        def is_back(name: str = name, wanted: Counter[str] = wanted) -> bool:
            pid = _observed(stage).get(name)
            return pid is None or processes.descriptors(pid) == wanted

        if not stage.loop.wait_until(is_back, SOON_S) and (pid := _observed(stage).get(name)) is not None:
            now = processes.descriptors(pid)
            more, less = now - wanted, wanted - now
            stage.violate(figures.DESCRIPTORS, f"{name} has {dict(more)} more and {dict(less)} less than at the start")
        stage.result.looks["tables of descriptors"] = stage.result.looks.get("tables of descriptors", 0) + 1


def _observed(stage: Stage) -> dict[str, int]:
    """Whose descriptors count, by a name that survives a replacement."""
    pids = {_role(agent.name): agent.pid for agent in stage.living_agents()}
    if stage.manager is not None:
        pids["manager"] = stage.manager.pid
    if len(templates := stage.templates()) == 1:
        pids["template"] = templates[0].pid
    return pids


def _role(name: str) -> str:
    return name.rstrip("0123456789")


_STEADY_LOOKS: Final = 5


def _steady(stage: Stage, pid: int) -> Counter[str]:
    """What it has open when that has not changed for some looks: ZeroMQ closes in a thread of its own."""
    looks: list[Counter[str]] = []

    def is_steady() -> bool:
        looks.append(processes.descriptors(pid))
        last = looks[-_STEADY_LOOKS:]
        return len(last) == _STEADY_LOOKS and all(one == last[0] for one in last)

    stage.loop.wait_until(is_steady, SOON_S)
    return looks[-1]
