"""`python -m tests.faults.storm --steps 2000 --seed 1`: run a storm and print its figures; exit 1 if a promise broke.

With `--round N`, that round of the storm alone, and its log.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.storm.figures import HANGS, Result, Violation, table
from tests.faults.storm.plan import Plan, new_pid_namespace, rounds

# A round takes seconds; one that waits for everything that may be waited for, a few minutes.
ROUND_S: Final = 240.0
_ROOT: Final = Path(__file__).parents[3]


def storm(
    steps: int, seed: int, *, only: int | None = None, jobs: int = 2, fixed: Mapping[str, object] | None = None
) -> tuple[Result, list[str]]:
    """Run the rounds; their result added up, and what there is to say about each that went wrong or was changed."""
    namespace, why_not = new_pid_namespace()
    plans = [_fixed(plan, fixed or {}) for plan in rounds(seed, steps) if only in {None, plan.number}]
    total, remarks = Result(), []
    if namespace is None and any(plan.parent == "is_pid_1" for plan in plans):
        remarks.append(f"skipped: no manager ran as the child of a PID 1 ({why_not})")
    with ThreadPoolExecutor(jobs) as pool:
        for plan, result in zip(plans, pool.map(lambda plan: _run(plan, namespace), plans), strict=True):
            total.add(result)
            if result.violations or only is not None:
                again = f"python -m tests.faults.storm --steps {steps} --seed {seed} --round {plan.number}"
                again += f" --plan '{json.dumps(fixed)}'" if fixed else ""
                remarks.append("\n".join([f"round {plan.number} ({again})", *result.log]))
    return total, remarks


def _fixed(plan: Plan, fixed: Mapping[str, object]) -> Plan:
    """The plan with these of its fields as given."""
    return msgspec.convert(msgspec.to_builtins(plan) | dict(fixed), Plan)


def _run(plan: Plan, namespace: list[str] | None) -> Result:
    prefix = namespace if plan.parent == "is_pid_1" and namespace is not None else []
    command = [*prefix, sys.executable, "-m", "tests.faults.storm.round", msgspec.json.encode(plan).decode()]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, cwd=_ROOT, check=True, timeout=ROUND_S)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        return Result(violations=[Violation(HANGS, f"round {plan.number} broke off: {error}")], log=[str(plan)])
    return msgspec.json.decode(done.stdout, type=Result)


def main() -> int:
    """Run the storm that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.storm", description="Random faults, real processes.")
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int, help="run this round alone, and print its log")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="rounds at the same time")
    parser.add_argument(
        "--plan", default="{}", metavar="JSON", help="fields of `plan.Plan` that every round shall have"
    )
    flags = parser.parse_args()
    began = time.monotonic()
    result, remarks = storm(flags.steps, flags.seed, only=flags.round, jobs=flags.jobs, fixed=json.loads(flags.plan))
    for remark in remarks:
        print(remark, end="\n\n")
    number = 1 if flags.round is not None else len(rounds(flags.seed, flags.steps))
    print(table(result, rounds=number, seed=flags.seed, took_s=time.monotonic() - began))
    for violation in result.violations:
        print(f"BROKEN: {violation.figure}: {violation.what}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
