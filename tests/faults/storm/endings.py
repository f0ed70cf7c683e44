"""How a round ends, and what must be gone by then: processes, zombies, files, and everything that clients held."""

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

from hintcell_manager.protocol import LOCK_NAME
from tests.faults.storm import figures, processes
from tests.faults.storm.catalogs import SECRET
from tests.faults.storm.crew import Agent
from tests.faults.storm.messages import AskGrant, Done, Leave, Process, Stop
from tests.faults.storm.settling import come_to_rest
from tests.faults.storm.stage import ANSWER_S, SOON_S, Stage
from tests.faults.storm.visits import Visits

# What a manager or client that ends in its own time may take: its deadlines for stuck processes add up to this.
_STOP_S: Final = 25.0
# From a kill to the death of everyone who dies with the killed.
_DEATH_S: Final = 5.0
# A directory that old is taken for left behind, and removed by the next manager.
_LONG_AGO: Final = (1, 1)

_SIGNS_OF_A_BUG: Final = ("internal error", "Traceback", "never retrieved", "Exception ignored", "Fatal Python error")


class Ending:
    """The end of one round."""

    def __init__(self, stage: Stage, visits: Visits) -> None:
        self._stage = stage
        self._visits = visits
        self._began = 0.0
        # Who may have lost its parent without anybody's fault, and so become a child of the round.
        self._may_be_adopted: set[int] = set()
        self._any_may_be_adopted = False

    def come(self) -> None:
        """End the round as planned, and look."""
        stage, plan = self._stage, self._stage.plan
        stage.note(f"end: {plan.ending}")
        self._began = stage.ledger.manager_end_began = time.monotonic()
        owner, manager = stage.agents["owner"], stage.manager
        assert manager is not None
        if plan.ending.startswith("client"):
            self._note_closing(owner)
        match plan.ending:
            case "client_closes":
                self._wake(owner)
                stage.ask(owner, Stop(stage.number()), _STOP_S)
                self._expect_nobody(0.2)
            case "client_exits":
                self._wake(owner)
                owner.send(Leave(stage.number()))
                self._expect_exit(owner)
                self._expect_nobody(0.2)
            case "client_killed":
                self._may_be_adopted.add(manager.pid)
                self._kill_owner(owner)
                self._expect_nobody(_STOP_S)
            case "manager_terminated":
                os.kill(manager.pid, signal.SIGTERM)
                self._expect_dead(manager)
                self._expect_nobody(0.2)
            case "manager_killed" | "both_killed":
                self._any_may_be_adopted = True
                os.kill(manager.pid, signal.SIGKILL)
                if plan.ending == "both_killed":
                    self._kill_owner(owner)
                self._expect_nobody(_DEATH_S)
        self._release_agents()
        self._adopt()
        self._look_at_files()
        self._look_at_logs()

    # --- steps of an ending ---

    def _note_closing(self, owner: Agent) -> None:
        """With its client, every session of its is over, whatever it is in the middle of."""
        for session in self._stage.ledger.sessions.values():
            if session.holder == owner.name:
                session.is_closed = True
                session.may_end("completed", self._began)
                session.may_end("rejected", self._began)

    def _wake(self, agent: Agent) -> None:
        """A stopped client cannot close; whoever else is stopped stays so."""
        self._stage.stopped.discard(agent.pid)
        os.kill(agent.pid, signal.SIGCONT)

    def _kill_owner(self, owner: Agent) -> None:
        stage = self._stage
        owner.process.kill()
        owner.process.wait()
        owner.is_gone = True
        owner.pending.clear()
        stage.loop.forget(owner.outcomes_fd)

    def _expect_exit(self, agent: Agent) -> None:
        if not self._stage.loop.wait_until(lambda: agent.process.poll() is not None, _STOP_S):
            self._stage.violate(figures.HANGS, f"{agent.name} did not exit within {_STOP_S:g} s")
            agent.process.kill()

    def _expect_dead(self, process: Process) -> None:
        if not self._stage.loop.wait_until(lambda: not processes.is_alive(process), _STOP_S):
            self._stage.violate(figures.HANGS, f"the manager did not stop within {_STOP_S:g} s")
            os.kill(process.pid, signal.SIGKILL)

    def _expect_nobody(self, seconds: float) -> None:
        """Nobody of the manager's family is left; agents do not count."""
        stage = self._stage
        if stage.loop.wait_until(lambda: not self._family(), seconds):
            slowest = stage.result.slowest_s
            slowest[stage.plan.ending] = max(slowest.get(stage.plan.ending, 0.0), time.monotonic() - self._began)
            return
        for seen in self._family():
            pid = seen.process.pid
            stage.violate(
                figures.ORPHANS, f"process {pid} ({processes.command_line(pid)[:80]}) lives {seconds:g} s after the end"
            )
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _family(self) -> list[processes.Look]:
        others = {agent.pid for agent in self._stage.agents.values()} | self._stage.forked
        return [seen for seen in processes.marked(self._stage.mark) if seen.process.pid not in others]

    def _release_agents(self) -> None:
        """Have every client that lives close and leave; then it holds nothing more than before its start."""
        stage = self._stage
        come_to_rest(stage, self._visits)
        for agent in stage.living_agents():
            if not isinstance(stage.ask(agent, Stop(stage.number()), _STOP_S), Done):
                continue
            wanted = stage.baselines[f"{agent.name} without a client"]

            def is_back(agent: Agent = agent, wanted: Counter[str] = wanted) -> bool:
                return processes.descriptors(agent.pid) == wanted

            if not stage.loop.wait_until(is_back, SOON_S):
                now = processes.descriptors(agent.pid)
                what = f"{agent.name} has {dict(now - wanted)} more and {dict(wanted - now)} less than without a client"
                stage.violate(figures.DESCRIPTORS, what)
            stage.result.looks["tables of descriptors"] = stage.result.looks.get("tables of descriptors", 0) + 1
        stage.end_forked()
        for agent in stage.living_agents():
            agent.send(Leave(stage.number()))
            self._expect_exit(agent)

    def _adopt(self) -> None:
        """Reap who has become a child of the round; who had no reason to is an orphan that somebody has left."""
        stage = self._stage
        known = {agent.pid for agent in stage.agents.values()}
        if stage.manager_process is not None:
            known.add(stage.manager_process.pid)
            stage.manager_process.wait(ANSWER_S)

        def adopted() -> list[int]:
            return [seen.process.pid for seen in processes.children(os.getpid()) if seen.process.pid not in known]

        for pid in adopted():
            if not self._any_may_be_adopted and pid not in self._may_be_adopted | stage.forked:
                stage.violate(figures.ORPHANS, f"process {pid} was left by its parent")
            stage.loop.wait_until(lambda pid=pid: os.waitpid(pid, os.WNOHANG) != (0, 0), _DEATH_S)  # type: ignore[misc]

    # --- what is left ---

    def _look_at_files(self) -> None:
        """Nothing is left of a private manager, at the latest after the next; a lock alone of a shared one."""
        stage = self._stage
        run = stage.base / "run"
        if stage.shared_directory is not None:
            if stage.plan.ending in {"manager_killed", "both_killed"}:
                self._serve_again(stage.shared_directory)
            wanted = {"hintcell", f"hintcell/{LOCK_NAME}"}
        else:
            if stage.plan.ending == "both_killed":
                for directory in run.iterdir():
                    os.utime(directory, _LONG_AGO)
                self._start_another()
            wanted = set()
        left = {str(path.relative_to(run)) for path in run.rglob("*")}
        stage.result.looks["runtime directories"] = stage.result.looks.get("runtime directories", 0) + 1
        if left != wanted:
            stage.violate(figures.FILES, f"left: {sorted(left)}, expected: {sorted(wanted)}")

    def _serve_again(self, directory: Path) -> None:
        """The next manager serves where one was killed."""
        stage = self._stage
        stage.manager = None
        stage.start_manager(directory)
        self._try_out("next", directory)
        assert stage.manager_process is not None
        stage.manager_process.terminate()
        stage.manager_process.wait(_STOP_S)

    def _start_another(self) -> None:
        """The next private manager cleans up."""
        self._stage.manager = None
        self._try_out("next", None)

    def _try_out(self, name: str, directory: Path | None) -> None:
        stage = self._stage
        stage.start_agent(name, "blocking", directory)
        agent = stage.agents[name]
        stage.ask(agent, AskGrant(stage.number(), "ann", ()))
        stage.ask(agent, Stop(stage.number()), _STOP_S)
        agent.send(Leave(stage.number()))
        self._expect_exit(agent)

    def _look_at_logs(self) -> None:
        for log in self._stage.base.glob("*.log"):
            text = log.read_text(errors="replace")
            if SECRET in text:
                self._stage.violate(figures.TEXTS, f"{log.name} holds a document's text or a query")
            for line in text.splitlines():
                if any(sign in line for sign in _SIGNS_OF_A_BUG):
                    self._stage.violate(figures.ERRORS, f"{log.name}: {line[:300]}")
