"""What the steps of a round act on: its clients, its manager, its timers, and every death as it is seen.

Covers starting it all, commanding clients, and watching. What the steps are is `steps`; what must hold at the end is
`settling` and `endings`.
"""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from hintcell_manager.protocol import DOOR_NAME
from tests.faults.storm import figures, processes
from tests.faults.storm.catalogs import query
from tests.faults.storm.crew import Agent
from tests.faults.storm.ledger import Ledger, SessionRecord, Who
from tests.faults.storm.loop import Loop
from tests.faults.storm.messages import (
    AskGrant,
    AskStatus,
    Close,
    Command,
    Forked,
    Open,
    Outcome,
    Process,
    Result,
    Start,
    Started,
    StatusSeen,
    Turn,
)
from tests.faults.storm.observer import Observer
from tests.faults.storm.plan import OPTIONS, Kind, Plan

# Starting Python, hintcell and scikit-learn takes two seconds, many times that on a busy machine.
START_S: Final = 30.0
# For whatever takes milliseconds when nothing is wrong.
SOON_S: Final = 10.0
# Above the deadlines for whatever waits for a stopped process to be replaced.
ANSWER_S: Final = 40.0
# How often whoever stopped by itself (see `hooks`) is woken.
_WAKE_EVERY_S: Final = 0.4

_FOLDER: Final = Path(__file__).parent
_ROOT: Final = _FOLDER.parents[2]
_SIGNALS: Final = {"ignores_sigchld": "ignored", "blocks_signals": "blocked"}


class Stage:
    """One round's processes."""

    def __init__(self, plan: Plan, base: Path) -> None:
        """Prepare; `start` starts. `base` is a new directory with a short path."""
        self.plan: Final = plan
        self.base: Final = base
        self.rng: Final = random.Random(plan.seed)
        self.mark: Final = f"{os.getpid()}-{plan.seed}"
        self.options: Final = OPTIONS[plan.options]
        self.ledger: Final = Ledger(self.options)
        self.result: Final = figures.Result()
        self.observer: Final = Observer(self.ledger, self.result, self.violate, self.watch)
        self.loop: Final = Loop()
        self.agents: Final[dict[str, Agent]] = {}
        self.stopped: Final[set[int]] = set()
        self.pidfds: Final[dict[str, int]] = {}
        self.baselines: Final[dict[str, Counter[str]]] = {}
        self.manager: Process | None = None
        self.manager_process: subprocess.Popen[bytes] | None = None
        self.shared_directory: Final = base / "run" / "hintcell" if plan.is_shared else None
        self.directory = Path()
        self.status: StatusSeen | None = None
        self.forked: Final[set[int]] = set()
        self._answers: dict[int, Result] = {}
        self._numbers = itertools.count(1)
        self._began = time.monotonic()

    # --- what happened ---

    def note(self, what: str) -> None:
        """Write a line into the round's log."""
        self.result.log.append(f"{time.monotonic() - self._began:8.3f}  {what}")

    def violate(self, figure: str, what: str) -> None:
        """Count a broken promise."""
        self.result.violations.append(figures.Violation(figure, what))
        self.note(f"BROKEN ({figure}): {what}")

    def number(self) -> int:
        """One that was not given yet in this round."""
        return next(self._numbers)

    # --- starting ---

    def environment(self) -> dict[str, str]:
        """For every process of the round."""
        path = [str(_FOLDER / "hooks"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return os.environ | {
            processes.MARK: self.mark,
            "HINTCELL_STORM_HOOKS": ",".join(self.plan.hooks),
            "PYTHONPATH": os.pathsep.join(path),
            "XDG_RUNTIME_DIR": str(self.base / "run"),
        }

    def start(self) -> None:
        """Start the manager and three clients: its owner, a visitor, and one that is never harmed."""
        (self.base / "run").mkdir(mode=0o700)
        if self.shared_directory is not None:
            self.start_manager(self.shared_directory)
        self.directory = Path(self.start_agent("owner", self.plan.owner, self.shared_directory).directory)
        self.start_agent("visitor", self.plan.visitor, self.directory)
        self.start_agent("announcer", "blocking", self.directory)
        self.warm_up()
        self.loop.after(_WAKE_EVERY_S, self._wake)

    def start_manager(self, directory: Path) -> None:
        """Start the shared manager, and wait until its door is open."""
        command = [
            *(sys.executable, "-m", "tests.faults.storm.under", _SIGNALS.get(self.plan.parent, "ordinary")),
            *(sys.executable, "-P", "-m", "hintcell_manager", "serve", "--directory", str(directory)),
            *("--options", msgspec.json.encode(self.options).decode()),
        ]
        with (self.base / "manager.log").open("ab") as log:
            self.manager_process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd=_ROOT
            )
        for stale in directory.glob(DOOR_NAME):
            stale.unlink()
        if not self.loop.wait_until((directory / DOOR_NAME).exists, START_S):
            raise RuntimeError("the shared manager did not start: " + (self.base / "manager.log").read_text()[-2000:])

    def start_agent(self, name: str, kind: Kind, directory: Path | None) -> Started:
        """Start a client and have it connect, or start a private manager."""
        is_parent = directory is None
        signals = _SIGNALS.get(self.plan.parent, "ordinary") if is_parent else "ordinary"
        with (self.base / f"{name}.log").open("ab") as log:
            agent = Agent(name, kind, self.environment(), log, signals)
        self.agents[name] = agent
        self.loop.on_readable(agent.outcomes_fd, lambda: self._receive(agent))
        if not self.loop.wait_until(lambda: agent.is_ready, START_S):
            raise RuntimeError(f"{name} did not start")
        self.baselines[f"{name} without a client"] = processes.descriptors(agent.pid)
        place = None if directory is None else str(directory)
        started = self.ask(agent, Start(self.number(), place, self.options if is_parent else None), START_S)
        if not isinstance(started, Started):
            raise TypeError(f"{name} did not connect: {started}")
        if self.manager is None and (seen := processes.look(started.manager_pid)) is not None:
            self.manager = seen.process
        self.ask(agent, AskGrant(self.number(), "ann", ("repo:a",)))
        return started

    def warm_up(self) -> None:
        """Open a session and close it again, so that a template is ready and nothing happens for the first time."""
        announcer = self.agents["announcer"]
        self.ask(announcer, AskGrant(self.number(), "ann", ()))
        told, key = self.ledger.grants[-1], f"w{self.number()}"
        session = SessionRecord(key, announcer.name, told, "warm", "small", "", time.monotonic())
        self.ledger.sessions[key] = session
        opening = Open(self.number(), key, told.grant, "warm", query(), "small", identifier_hints=False)
        self.ask(announcer, opening, START_S)
        self.ask(announcer, Turn(self.number(), key, "first"), START_S)
        session.is_closed = True
        session.may_end("completed", time.monotonic())
        self.ask(announcer, Close(self.number(), key))

        def is_over() -> bool:
            self.ask(announcer, AskStatus(self.number()))
            return self.status is not None and not self.status.sessions

        if not self.loop.wait_until(is_over, START_S):
            raise RuntimeError("the first session did not end in time")

    def manager_lives(self) -> bool:
        """Whether the manager lives, as it must until the round's end; if not, the rest of the round has no meaning."""
        if self.manager is None or processes.is_alive(self.manager):
            return True
        self.ledger.manager_end_began = 0.0
        self.violate(figures.ERRORS, "the manager died, and nothing was done to it")
        return False

    # --- clients ---

    def ask(self, agent: Agent, command: Command, seconds: float = ANSWER_S) -> Result | None:
        """Command something and wait for what comes of it; None, and a broken promise, if that takes too long."""
        agent.send(command)
        self.loop.wait_until(lambda: command.op in self._answers or agent.is_gone, seconds)
        if command.op not in self._answers and not agent.is_gone:
            self.violate(figures.HANGS, f"{agent.name}: {type(command).__name__} had no answer within {seconds:g} s")
        return self._answers.get(command.op)

    def living_agents(self) -> list[Agent]:
        """The clients that still take commands."""
        return [agent for agent in self.agents.values() if not agent.is_gone]

    def _receive(self, agent: Agent) -> None:
        for pending, outcome in agent.receive():
            self._take(agent, pending.command, outcome)
            self.observer.outcome(agent, pending, outcome)
        if agent.is_gone:
            self.loop.forget(agent.outcomes_fd)

    def _take(self, agent: Agent, command: Command, outcome: Outcome) -> None:
        self._answers[command.op] = outcome.result
        if isinstance(outcome.result, StatusSeen):
            self.status = outcome.result
        if isinstance(outcome.result, Forked):
            self.forked.add(outcome.result.pid)
        name = command.key if hasattr(command, "key") else ""
        self.note(f"   {agent.name} {type(command).__name__} {name} -> {_short(outcome)}")

    # --- processes ---

    def watch(self, session: SessionRecord) -> None:
        """Hold a pidfd of the session's worker, and note when it has died."""
        if session.worker is None:
            return
        try:
            pidfd = os.pidfd_open(session.worker.pid)
        except ProcessLookupError:
            session.died = time.monotonic()
            return
        if not processes.is_alive(session.worker):
            os.close(pidfd)
            session.died = time.monotonic()
            return
        self.pidfds[session.key] = pidfd
        self.loop.on_readable(pidfd, lambda: self._died(session))

    def end_forked(self) -> None:
        """Kill the children that clients have forked. Each holds copies of whatever its parent said just then."""
        for pid in self.forked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def templates(self) -> list[Process]:
        """The living templates, loading ones among them."""
        if self.manager is None:
            return []
        return [
            seen.process
            for seen in processes.children(self.manager.pid)
            if seen.is_alive and processes.is_template(seen.process.pid)
        ]

    def _died(self, session: SessionRecord) -> None:
        session.died = time.monotonic()
        pidfd = self.pidfds.pop(session.key)
        self.loop.forget(pidfd)
        os.close(pidfd)
        self.note(f"   {session.key} died")

    def _wake(self) -> None:
        """Continue whoever stopped by itself."""
        for seen in processes.everything():
            if seen.state == "T" and seen.process.pid not in self.stopped and seen.process.pid in self._family():
                now = time.monotonic()
                self.ledger.hinder(Who.TEMPLATE, now - _WAKE_EVERY_S).ended = now
                os.kill(seen.process.pid, signal.SIGCONT)
        self.loop.after(_WAKE_EVERY_S, self._wake)

    def _family(self) -> set[int]:
        return {seen.process.pid for seen in processes.marked(self.mark)}


def _short(outcome: Outcome) -> str:
    text = str(outcome.result)
    return f"{text[:160]} ({outcome.ended - outcome.began:.3f} s)"
