"""Interleaving of two rankings of the same candidates, so that neither can push the other far down.

Both functions take the complete baseline and hints that may be partial, keep every candidate exactly once,
and are pure. With n candidates, the baseline's rank r appears

* by place min(n, 2r)     in `interleave` (hints first),
* by place min(n, 2r - 1) in `interleave_baseline_first` (the first candidate never changes).
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def interleave(baseline: Sequence[T], hints: Sequence[T]) -> list[T]:
    """Alternate hints and baseline, hints first, skipping what was taken.

    Args:
        baseline: all candidates, best first.
        hints: some or all of the same candidates, best first.

    Raises:
        ValueError: `baseline` repeats a candidate, or `hints` repeats one or names one not in `baseline`.
    """
    _check(baseline, hints)
    return _alternate(hints, baseline)


def interleave_baseline_first(baseline: Sequence[T], hints: Sequence[T]) -> list[T]:
    """Alternate baseline and hints, baseline first, skipping what was taken; arguments and errors as `interleave`."""
    _check(baseline, hints)
    return _alternate(baseline, hints)


def _check(baseline: Sequence[T], hints: Sequence[T]) -> None:
    known = set(baseline)
    if len(known) != len(baseline):
        raise ValueError("baseline names a candidate twice: it must be a permutation")
    hinted = set(hints)
    if len(hinted) != len(hints):
        raise ValueError("hints name a candidate twice: they must be a partial permutation of the baseline")
    if not hinted <= known:
        raise ValueError("hints name a candidate that the baseline does not have")


def _alternate(first: Sequence[T], second: Sequence[T]) -> list[T]:
    taken: dict[T, None] = {}
    turns: list[Iterator[T]] = [iter(first), iter(second)]
    while turns:
        turn = turns.pop(0)
        for candidate in turn:
            if candidate not in taken:
                taken[candidate] = None
                turns.append(turn)
                break
    return list(taken)
