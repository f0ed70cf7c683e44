"""The figures to reach, on two cores with a warm template, and which figure is held against which.

A part makes each of its figures with `figure`; those that carry a goal's name get the goal. Every goal belongs to
exactly one part, by the first word of its name.
"""

from typing import Final

from bench.results import Figure, Goal, Run
from bench.timing import Spread

MIB: Final = 2**20

GOALS: Final = (
    Goal(1, "peers: first page, plain, against SQLite FTS5", "≤", 1.0, "×"),
    Goal(2, "peers: first page, hints, against SQLite FTS5", "≤", 1.7, "×"),
    Goal(3, "peers: first page, plain, against rank_bm25", "≤", 0.5, "×"),
    Goal(3, "peers: first page, plain, against bm25s", "≤", 0.5, "×"),
    Goal(3, "peers: first page, hints, against rank_bm25", "≤", 0.5, "×"),
    Goal(3, "peers: first page, hints, against bm25s", "≤", 0.5, "×"),
    Goal(4, "session: page turn, plain, p50", "≤", 100, "µs"),
    Goal(4, "session: page turn, hints, p50", "≤", 100, "µs"),
    Goal(4, "session: page turn, plain, p99", "≤", 1_000, "µs"),
    Goal(4, "session: page turn, hints, p99", "≤", 1_000, "µs"),
    Goal(5, "session: all pages against the first, plain", "≤", 1.5, "×"),
    Goal(5, "session: all pages against the first, hints", "≤", 1.5, "×"),
    Goal(6, "session: USS after the first page, plain", "≤", 3, "MiB"),
    Goal(6, "session: USS after the first page, hints", "≤", 3, "MiB"),
    Goal(7, "memory: peak USS while ranking, plain", "≤", 24, "MiB"),
    Goal(7, "memory: peak USS while ranking, hints", "≤", 32, "MiB"),
    Goal(8, "scale: opens per second, 64 documents", "≥", 200, "/s"),
    Goal(9, "scale: 500 sessions held, PSS above the template's, for each", "≤", 3, "MiB"),
    Goal(10, "scale: permission change for one session, p99", "≤", 10, "ms"),
    Goal(10, "scale: permission change for 500 sessions", "≤", 1_000, "ms"),
    Goal(11, "scale: cost per byte at 64 MiB against 2 MiB, plain", "≤", 1.25, "×"),
    Goal(11, "scale: cost per byte at 64 MiB against 2 MiB, hints", "≤", 1.25, "×"),
    Goal(12, "start: cold worker, against loading CountVectorizer's module", "≤", 1.25, "×"),
    Goal(13, "start: import hintcell, beyond an empty program", "≤", 60, "ms"),
    Goal(13, "start: modules of NumPy and scikit-learn after import hintcell", "≤", 0, ""),
)
_BY_NAME: Final = {goal.name: goal for goal in GOALS}


def figure(name: str, value: float | Spread, unit: str) -> Figure:
    """A figure, held against the goal of its name.

    Raises:
        ValueError: the goal is in another unit.
    """
    spread = value if isinstance(value, Spread) else Spread(value, None, None, 1)
    goal = _BY_NAME.get(name)
    if goal is not None and goal.unit != unit:
        raise ValueError(f"{name!r} is in {unit!r}, and its goal in {goal.unit!r}")
    holds = None if goal is None else goal.is_reached_by(spread.median)
    return Figure(name, spread.median, unit, goal, holds, spread.low, spread.high, spread.n)


def goals_of(part: str) -> list[Goal]:
    """The goals whose figures this part measures."""
    return [goal for goal in GOALS if goal.name.startswith(f"{part}: ")]


def measured(run: Run) -> list[tuple[Goal, Figure | None]]:
    """Every goal, and its figure if the run has it."""
    figures = {figure.name: figure for part in run.parts for figure in part.figures}
    return [(goal, figures.get(goal.name)) for goal in GOALS]
