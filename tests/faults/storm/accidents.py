"""What befalls processes: killed, stopped and continued, out of descriptors."""

import contextlib
import os
import resource
import signal
import time
from pathlib import Path
from typing import Final

from tests.faults.storm import choices, processes
from tests.faults.storm.ledger import Hindrance, Who
from tests.faults.storm.messages import Process
from tests.faults.storm.stage import Stage
from tests.faults.storm.visits import Visits

_STOPPED_S: Final = (0.05, 1.2)
# Far below what anybody waits for the manager.
_MANAGER_STOPPED_S: Final = (0.02, 0.6)
_STARVED_S: Final = (0.05, 0.5)
_LEFT_TO_MANAGER: Final = 24
_CROWD: Final = 40


def kill_worker(stage: Stage) -> str | None:
    """SIGKILL a worker."""
    session = choices.living_session(stage)
    if session is None:
        return None
    session.may_end("crashed", time.monotonic())
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(stage.pidfds[session.key], signal.SIGKILL)
    return f"kill the worker of {session.key}"


def stop_worker(stage: Stage) -> str | None:
    """SIGSTOP a worker for a while."""
    session = choices.living_session(stage)
    if session is None or session.worker is None:
        return None
    if stage.options.ranking_deadline_s is not None and not session.pages:
        session.may_end("crashed", time.monotonic())
    _stop(stage, session.worker, stage.rng.uniform(*_STOPPED_S), None)
    return f"stop the worker of {session.key}"


def kill_template(stage: Stage) -> str | None:
    """SIGKILL a template, which may be loading, serving or retired."""
    templates = stage.templates()
    if not templates:
        return None
    template = stage.rng.choice(templates)
    stage.ledger.template_kills.append((template.pid, time.monotonic()))
    with contextlib.suppress(ProcessLookupError):
        os.kill(template.pid, signal.SIGKILL)
    return f"kill template {template.pid}"


def stop_template(stage: Stage) -> str | None:
    """SIGSTOP a template for a while."""
    templates = stage.templates()
    if not templates:
        return None
    template = stage.rng.choice(templates)
    _stop(stage, template, stage.rng.uniform(*_STOPPED_S), stage.ledger.hinder(Who.TEMPLATE, time.monotonic()))
    return f"stop template {template.pid}"


def stop_manager(stage: Stage) -> str | None:
    """SIGSTOP the manager for a while."""
    if stage.manager is None:
        return None
    seconds = stage.rng.uniform(*_MANAGER_STOPPED_S)
    _stop(stage, stage.manager, seconds, stage.ledger.hinder(Who.MANAGER, time.monotonic()))
    return "stop the manager"


def stop_client(stage: Stage) -> str | None:
    """SIGSTOP a client for a while."""
    agents = choices.harmed_agents(stage)
    if not agents:
        return None
    agent = stage.rng.choice(agents)
    seen = processes.look(agent.pid)
    if seen is None:
        return None
    hindrance = stage.ledger.hinder(Who.CLIENT, time.monotonic(), name=agent.name)
    _stop(stage, seen.process, stage.rng.uniform(*_STOPPED_S), hindrance)
    return f"stop {agent.name}"


def kill_visitor(stage: Stage) -> str | None:
    """SIGKILL the second client, whatever it is doing, and let another take its place."""
    visitors = [agent for agent in choices.harmed_agents(stage) if agent.name != "owner"]
    if not visitors:
        return None
    visitor, now = visitors[0], time.monotonic()
    for session in stage.ledger.sessions.values():
        if session.holder == visitor.name:
            session.may_end("completed", now)
            session.may_end("rejected", now)  # It may have been in the middle of its request.
            session.is_closed = True
    visitor.process.kill()
    visitor.process.wait()
    visitor.is_gone = True
    stage.loop.forget(visitor.outcomes_fd)
    visitor.close()
    del stage.agents[visitor.name]
    stage.start_agent(f"visitor{stage.number()}", visitor.kind, stage.directory)
    return f"kill {visitor.name}"


def starve(stage: Stage) -> str | None:
    """Leave a template or a client with a few free descriptors, or none, for a while."""
    templates, agents = stage.templates(), choices.harmed_agents(stage)
    who = stage.rng.choice((Who.TEMPLATE, Who.CLIENT))
    if not (templates if who is Who.TEMPLATE else agents):
        return None
    agent = stage.rng.choice(agents) if who is Who.CLIENT else None
    pid = stage.rng.choice(templates).pid if agent is None else agent.pid
    free = stage.rng.choice((0, 0, 1, 2, 4))
    hindrance = stage.ledger.hinder(who, time.monotonic(), name=agent.name if agent else "", is_starved=True)
    _limit(pid, free)
    stage.loop.after(stage.rng.uniform(*_STARVED_S), lambda: _feed(stage, hindrance))
    return f"leave {who.value} {hindrance.name} {free} descriptors"


def starve_manager(stage: Stage, visits: Visits) -> str | None:
    """Crowd the manager's door until it has no descriptor left, of a few dozen.

    It is not left without any at once: then libzmq aborts at the next control connection, which no program that uses
    it can help. It can keep some back from those who come to the door.
    """
    if stage.manager is None:
        return None
    hindrance = stage.ledger.hinder(Who.MANAGER, time.monotonic(), is_starved=True)
    _limit(stage.manager.pid, _LEFT_TO_MANAGER)
    visits.crowd(_CROWD)

    def disperse() -> None:
        _feed(stage, hindrance)
        visits.disperse()

    stage.loop.after(stage.rng.uniform(*_STARVED_S), disperse)
    return "crowd the door until the manager has no descriptor left"


def _limit(pid: int, free: int) -> None:
    """Let a process have so many more descriptors than its highest now."""
    with contextlib.suppress(OSError, ValueError):
        highest = max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + free, hard))


def _feed(stage: Stage, hindrance: Hindrance) -> None:
    """Give everybody all descriptors again: children have inherited the limit."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    for seen in processes.marked(stage.mark):
        with contextlib.suppress(OSError):
            resource.prlimit(seen.process.pid, resource.RLIMIT_NOFILE, limits)
    hindrance.ended = time.monotonic()


def _stop(stage: Stage, process: Process, seconds: float, hindrance: Hindrance | None) -> None:
    stage.stopped.add(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGSTOP)

    def go_on() -> None:
        stage.stopped.discard(process.pid)
        if processes.is_alive(process):
            os.kill(process.pid, signal.SIGCONT)
        if hindrance is not None:
            hindrance.ended = time.monotonic()

    stage.loop.after(seconds, go_on)
