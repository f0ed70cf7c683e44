"""`python -m bench [NAME ...]`: measure the parts, each in a process of its own, and write the report.

Exit status 0 if every part was measured, whether its goals hold or not; 1 if one failed; 2 for a wrong call.
"""

import argparse
import contextlib
import datetime
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.text import Text

from bench import corpus, goals, report, results
from bench.results import Part, Run

# What a part may take before it is ended, with half as much again as it needs on two idle cores. All of them together
# stay below the bound of the whole run.
BUDGETS_S: Final = {"peers": 150.0, "session": 150.0, "scale": 240.0, "memory": 90.0, "start": 90.0, "quality": 120.0}
OVERALL_S: Final = 15 * 60.0
# Kept for writing the report.
_REPORT_S: Final = 30.0
# A part that is told to stop closes its client, and with it its manager.
_STOP_S: Final = 5.0

_ROOT: Final = Path(__file__).parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure hintcell, and write the report.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"parts: {', '.join(BUDGETS_S)}; all if none is named")
    parser.add_argument("--keep", action="store_true", help="also write bench/runs/DATE-HOST.json, to be committed")
    parser.add_argument("--host", help="what --keep calls this machine (default: its processor)")
    parser.add_argument(
        "--effort", type=float, default=1.0, help="this share of the rounds, to try something out (default: 1)"
    )
    flags = parser.parse_args(arguments)
    if unknown := [name for name in flags.names if name not in BUDGETS_S]:
        parser.error(f"there is no part {unknown[0]!r}: name some of {', '.join(BUDGETS_S)}")
    try:
        run = measure(flags.names or list(BUDGETS_S), flags.effort)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    write(run, kept_as=(flags.host or run.machine.cpu) if flags.keep else None)
    show(run)
    return 1 if any(part.failure or not_measured(part) for part in run.parts) else 0


def measure(names: Sequence[str], effort: float) -> Run:
    """Run the parts one after the other, within the overall bound."""
    began = time.monotonic()
    now = datetime.datetime.now(datetime.UTC)
    print("Reading the functions", file=sys.stderr, flush=True)
    corpus.all_functions()  # Once, and not at the cost of the first part's time.
    parts: list[Part] = []
    for name in dict.fromkeys(names):
        left_s = began + OVERALL_S - _REPORT_S - time.monotonic()
        print(f"Measuring {name} (at most {min(BUDGETS_S[name], left_s):.0f} s)", file=sys.stderr, flush=True)
        parts.append(_in_its_own_process(name, effort, min(BUDGETS_S[name], left_s)))
    return Run(
        date=now.isoformat(timespec="seconds"),
        commit=results.commit(),
        effort=effort,
        machine=results.this_machine(),
        parts=parts,
        took_s=time.monotonic() - began,
    )


def _in_its_own_process(name: str, effort: float, budget_s: float) -> Part:
    if budget_s <= 0:
        return Part(name, "", failure="no time was left for it")
    into = results.RESULTS / f"{name}.json"
    into.unlink(missing_ok=True)
    started = time.monotonic()
    busy, own = results.busy_s(), results.descendants_s()
    # A session of its own, so that all it started can be ended with it.
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.one", name, str(into), str(effort)],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        status = process.wait(budget_s)
        failure = "" if status == 0 else f"it ended with exit status {status}; what it said is above"
    except subprocess.TimeoutExpired:
        failure = f"it took longer than {budget_s:.0f} s"
    finally:
        _end(process)
    took_s = time.monotonic() - started
    if failure:
        return Part(name, "", took_s=took_s, failure=failure)
    others_s = (results.busy_s() - busy) - (results.descendants_s() - own)
    part = msgspec.json.decode(into.read_bytes(), type=Part)
    return msgspec.structs.replace(part, took_s=took_s, others=max(0.0, others_s / took_s))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what a part has started and left, first politely."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write(run: Run, *, kept_as: str | None) -> None:
    """Write results.json and report.html, and a copy to keep under the name of the machine."""
    results.RESULTS.mkdir(exist_ok=True)
    encoded = msgspec.json.format(msgspec.json.encode(run), indent=1)
    (results.RESULTS / "results.json").write_bytes(encoded)
    if kept_as is not None:
        results.RUNS.mkdir(exist_ok=True)
        (results.RUNS / kept_name(run, kept_as)).write_bytes(encoded)
    page = report.page(run)
    (results.RESULTS / "report.html").write_text(page, encoding="utf-8")


def kept_name(run: Run, host: str) -> str:
    """DATE-HOST.json; two runs of one minute replace each other."""
    words = re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-") or platform.machine()
    date = re.sub(r"[^0-9T-]", "", run.date[:16])
    return f"{date}-{words}.json"


def not_measured(part: Part) -> list[str]:
    """Goals of this part that none of its figures has: a figure was renamed, and its goal was not."""
    names = {figure.name for figure in part.figures}
    return [goal.name for goal in goals.goals_of(part.name) if goal.name not in names]


def show(run: Run) -> None:
    """Print every goal beside its figure, and what failed."""
    console = Console(highlight=False, markup=False, emoji=False)
    width = max(len(goal.name) for goal in goals.GOALS)
    console.print(Text(f"{'':>3} {'':{width}} {'measured':>11} {'goal':>11}", style="dim"), soft_wrap=True)
    for goal, figure in goals.measured(run):
        if figure is None:
            measured, verdict, style = "–", "not measured", "dim"
        else:
            measured = report.number(figure.value, figure.unit)
            verdict, style = ("holds", "green") if figure.holds else ("missed", "bold red")
        bound = f"{goal.sense} {report.number(goal.bound, goal.unit)}"
        line = Text(f"{goal.row:>3} {goal.name:{width}} {measured:>11} {bound:>11}  ")
        console.print(line + Text(verdict, style=style), soft_wrap=True)
    for part in run.parts:
        if part.failure:
            console.print(f"{part.name} failed: {part.failure}", soft_wrap=True)
        elif missing := not_measured(part):
            console.print(f"{part.name} has no figure for: {'; '.join(missing)}", soft_wrap=True)
    console.print(
        f"{run.took_s:.0f} s; the report is {os.path.relpath(results.RESULTS / 'report.html')}", soft_wrap=True
    )


if __name__ == "__main__":
    sys.exit(main())
