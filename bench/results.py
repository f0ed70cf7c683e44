"""What a run of the benchmarks is: parts with their figures, tables and plots, and the machine they come from.

`goals` says what shall be reached. Does not cover measuring or showing.
"""

import os
import platform
import resource
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

import psutil
from msgspec import Struct

RESULTS: Final = Path(__file__).parent / "results"
RUNS: Final = Path(__file__).parent / "runs"

_LIBRARIES: Final = (
    *("hintcell", "msgspec", "numpy", "psutil", "pyzmq", "scikit-learn", "scipy"),
    *("bm25s", "rank-bm25", "tantivy", "matplotlib"),
)
_GIT_DEADLINE_S: Final = 5.0


class Goal(Struct, frozen=True):
    """A figure to reach.

    Attributes:
        row: its place in the project's table of goals, from 1; a row may need several figures.
        name: of the figure that must reach it.
        sense: whether the figure may be at most or must be at least `bound`.
        bound: in `unit`.
        unit: of both.
    """

    row: int
    name: str
    sense: Literal["≤", "≥"]
    bound: float
    unit: str

    def is_reached_by(self, value: float) -> bool:
        return value <= self.bound if self.sense == "≤" else value >= self.bound


class Figure(Struct, frozen=True):
    """One measured number.

    Attributes:
        name: what it is; a goal's name if it has one.
        value: in `unit`; a median unless the name says otherwise.
        unit: of `value`, `low` and `high`.
        goal: what it shall reach, if anything.
        holds: whether it does; None without a goal.
        low: the lower quartile.
        high: the upper one.
        n: how many measurements it is made of.
    """

    name: str
    value: float
    unit: str
    goal: Goal | None = None
    holds: bool | None = None
    low: float | None = None
    high: float | None = None
    n: int = 1


class Table(Struct, frozen=True):
    """Rows of text under a title; the first column names the row."""

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


class Series(Struct, frozen=True):
    """Points of one line, joined in order, or only marked."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    joined: bool = True


class Plot(Struct, frozen=True):
    """Lines over one pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_log: bool = False
    y_log: bool = False
    note: str = ""


class Part(Struct, frozen=True):
    """What one module measured.

    Attributes:
        name: the module's.
        about: what was measured and how, for a reader of the report.
        figures: its numbers.
        tables: more of them.
        plots: their distributions and courses.
        took_s: how long it ran; filled in by who ran it.
        failure: why it has no figures, if it failed.
        others: cores that were busy with anything else meanwhile, on average; filled in like the time. The figures hold
            what that took.
    """

    name: str
    about: str
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    took_s: float = 0.0
    failure: str = ""
    others: float | None = None


class Machine(Struct, frozen=True):
    """Where a run was made."""

    cores: int
    cpu: str
    memory_bytes: int
    kernel: str
    python: str
    libraries: Mapping[str, str]
    sqlite: str


class Run(Struct, frozen=True):
    """One run of some or all parts.

    Attributes:
        date: when it began.
        commit: what was measured.
        effort: below 1, there were fewer rounds, and the figures are worth less.
        machine: where.
        parts: what was measured.
        took_s: all of it.
    """

    date: str
    commit: str
    effort: float
    machine: Machine
    parts: Sequence[Part]
    took_s: float


def this_machine() -> Machine:
    """The machine, and the libraries as installed."""
    import sqlite3

    return Machine(
        cores=len(os.sched_getaffinity(0)),
        cpu=_cpu_model(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        libraries={name: version for name in _LIBRARIES if (version := _version(name)) is not None},
        sqlite=sqlite3.sqlite_version,
    )


def busy_s() -> float:
    """Seconds since the start in which the machine's cores were not idle, those that its host took included."""
    times = psutil.cpu_times()
    # What guests took is in `user` and `nice` already.
    return times.user + times.nice + times.system + times.irq + times.softirq + times.steal


def descendants_s() -> float:
    """Processor time of all processes that this one has started and waited for, with what they have waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def commit() -> str:
    """The commit that is measured, marked if the tree has changes; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=_GIT_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    # Not on every architecture has the kernel a name to tell.
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
