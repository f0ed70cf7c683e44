"""One round, in a process of its own: `python -m tests.faults.storm.round PLAN`, which prints its result as JSON.

It adopts every process that loses its parent, so that nothing of a round outlives it unseen.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from tests.faults.storm import figures, processes, settling
from tests.faults.storm.endings import Ending
from tests.faults.storm.figures import Result
from tests.faults.storm.plan import Plan
from tests.faults.storm.stage import Stage
from tests.faults.storm.steps import steps, take
from tests.faults.storm.visits import Visits

# A step is mostly followed by the next at once.
_PAUSE_S = 0.04
_REST_EVERY = 0.15
_LINES_OF_LOG = 12


def main() -> None:
    """Run the round that the command line plans."""
    plan = msgspec.json.decode(sys.argv[1], type=Plan)
    processes.die_with_parent()
    processes.become_subreaper()
    base = Path(tempfile.mkdtemp(prefix="storm-"))
    try:
        result = run(plan, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    sys.stdout.buffer.write(msgspec.json.encode(result))


def run(plan: Plan, base: Path) -> Result:
    """Run a round below this new directory."""
    stage = Stage(plan, base)
    stage.note(f"plan: {plan}")
    try:
        visits = Visits(stage)
        stage.start()
        settling.note_baselines(stage)
        table = steps(visits)
        for _ in range(plan.steps):
            take(stage, table)
            stage.loop.pump(stage.rng.uniform(0, _PAUSE_S))
            if stage.rng.random() < _REST_EVERY:
                _rest(stage)
            if not stage.manager_lives():
                break
        else:
            if plan.settles:
                settling.settle(stage, visits)
            Ending(stage, visits).come()
        _tell_of_logs(stage)
    except Exception as error:
        stage.violate(figures.ERRORS, f"the round broke off: {type(error).__name__}: {error}")
        if os.environ.get("HINTCELL_STORM_DEBUG"):
            raise
    finally:
        for seen in processes.marked(stage.mark):
            os.kill(seen.process.pid, signal.SIGKILL)
    return stage.result


def _tell_of_logs(stage: Stage) -> None:
    """The last lines of every log, if something is to be found out."""
    for log in sorted(stage.base.glob("*.log")) if stage.result.violations else ():
        for line in log.read_text(errors="replace").splitlines()[-_LINES_OF_LOG:]:
            stage.note(f"{log.name}: {line[:300]}")


def _rest(stage: Stage) -> None:
    """Let the clients that are not stopped catch up, so that not everything is a race."""

    def is_idle() -> bool:
        return not any(agent.pending for agent in stage.living_agents() if agent.pid not in stage.stopped)

    stage.loop.wait_until(is_idle, 2.0)


if __name__ == "__main__":
    main()
