"""Rounds in which contenders take turns, and what is made of their times: medians, quartiles, ratios.

Machines have moods that last for seconds. Contenders that take turns share them; contenders that run one after the
other do not.
"""

import gc
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

_T = TypeVar("_T")

# Fewer have no quartiles worth the name.
MIN_ROUNDS: Final = 3


class Spread(NamedTuple):
    """A median between its quartiles, of `n` values; the quartiles are None where there is nothing to take them of."""

    median: float
    low: float | None
    high: float | None
    n: int

    def times(self, factor: float) -> "Spread":
        low, high = (None if value is None else value * factor for value in (self.low, self.high))
        return Spread(self.median * factor, low, high, self.n)


def rounds(full: int, effort: float) -> int:
    """How many rounds to make of `full`, with this share of the effort."""
    return max(MIN_ROUNDS, round(full * effort))


def alternating(
    contenders: Mapping[str, Callable[[], float]], number: int, *, budget_s: float = math.inf
) -> dict[str, list[float]]:
    """What each contender returned in each round, usually the seconds that it took.

    Every round starts with another contender, so that none always comes after the same one. The garbage of one is not
    collected at the cost of the next.

    Args:
        contenders: each measures itself, so that it can prepare and clean up off the clock.
        number: of rounds.
        budget_s: no round is begun after so long, once there are MIN_ROUNDS.
    """
    values: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    until = time.monotonic() + budget_s
    for turn in range(number):
        if turn >= MIN_ROUNDS and time.monotonic() > until:
            break
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            gc.collect()
            values[name].append(contenders[name]())
    return values


def timed(call: Callable[[], _T]) -> tuple[float, _T]:
    """How many seconds the call took, and what it returned."""
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value below which this fraction lies, between its two neighbours in proportion (Hyndman and Fan's type 7)."""
    if not values or not 0 <= fraction <= 1:
        raise ValueError("a quantile is of at least one value, at 0 to 1")
    ordered = sorted(values)
    place = (len(ordered) - 1) * fraction
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def spread(values: Sequence[float]) -> Spread:
    """The median and the quartiles."""
    return Spread(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75), len(values))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """The ratio of the medians, between the quartiles of the ratios within each round.

    The first is what a user sees over many searches, and the second says how steady it is. With few rounds, or a
    skewed distribution, the first may lie outside the second.
    """
    within = [one / other for one, other in zip(ours, theirs, strict=True)]
    return Spread(
        quantile(ours, 0.5) / quantile(theirs, 0.5), quantile(within, 0.25), quantile(within, 0.75), len(within)
    )


def distribution(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The values in order, and the share of values up to each: the points of an empirical distribution function."""
    ordered = sorted(values)
    return ordered, [place / len(ordered) for place in itertools.islice(itertools.count(1), len(ordered))]
