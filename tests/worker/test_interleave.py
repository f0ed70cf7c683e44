"""Both interleavings, for every hint order and every partial length of up to seven candidates."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker.interleave import interleave, interleave_baseline_first
from tests.worker import plain

_Interleaving = Callable[[Sequence[str], Sequence[str]], list[str]]
_BOTH = pytest.mark.parametrize("interleaving", [interleave, interleave_baseline_first])
_SIZES = range(1, 8)


def _every_pair() -> Iterator[tuple[range, tuple[int, ...]]]:
    """Each baseline of up to seven candidates with each ordered subset of it."""
    for n in _SIZES:
        for length in range(n + 1):
            for hints in itertools.permutations(range(n), length):
                yield range(n), hints


def _places(order: Sequence[int]) -> list[int]:
    """The 1-based place of each candidate."""
    places = [0] * len(order)
    for place, candidate in enumerate(order, 1):
        places[candidate] = place
    return places


def test_every_ordered_subset_is_tried() -> None:
    assert sum(1 for baseline, _ in _every_pair() if len(baseline) == 7) == 13_700


@_BOTH
def test_every_candidate_is_kept_once(interleaving: Callable[[range, tuple[int, ...]], list[int]]) -> None:
    for baseline, hints in _every_pair():
        assert sorted(interleaving(baseline, hints)) == list(baseline), hints


def test_hints_push_baseline_rank_r_to_place_2r_at_most() -> None:
    for baseline, hints in _every_pair():
        places = _places(interleave(baseline, hints))
        assert all(places[r - 1] <= min(len(baseline), 2 * r) for r in range(1, len(baseline) + 1)), hints


def test_baseline_first_pushes_baseline_rank_r_to_place_2r_minus_1_at_most() -> None:
    for baseline, hints in _every_pair():
        places = _places(interleave_baseline_first(baseline, hints))
        assert all(places[r - 1] <= min(len(baseline), 2 * r - 1) for r in range(1, len(baseline) + 1)), hints


def test_a_hint_of_rank_r_is_not_pushed_down_either() -> None:
    for baseline, hints in _every_pair():
        hints_first = _places(interleave(baseline, hints))
        baseline_first = _places(interleave_baseline_first(baseline, hints))
        for r, hint in enumerate(hints, 1):
            assert hints_first[hint] <= 2 * r - 1, hints
            assert baseline_first[hint] <= 2 * r, hints


def test_baseline_first_always_keeps_the_first_candidate() -> None:
    for baseline, hints in _every_pair():
        assert interleave_baseline_first(baseline, hints)[0] == baseline[0], hints


def test_hints_first_starts_with_the_first_hint() -> None:
    for baseline, hints in _every_pair():
        assert interleave(baseline, hints)[0] == (hints or baseline)[0], hints


def test_sides_alternate_and_skip_what_was_taken() -> None:
    for baseline, hints in _every_pair():
        assert interleave(baseline, hints) == plain.alternate(hints, baseline), hints
        assert interleave_baseline_first(baseline, hints) == plain.alternate(baseline, hints), hints


@_BOTH
def test_without_hints_the_baseline_stays(interleaving: _Interleaving) -> None:
    assert interleaving(["a", "b", "c"], []) == ["a", "b", "c"]


@_BOTH
def test_of_nothing_nothing_is_made(interleaving: _Interleaving) -> None:
    assert interleaving([], []) == []


@_BOTH
@given(st.lists(st.text(max_size=3), unique=True, max_size=12), st.data())
def test_what_candidates_are_called_does_not_matter(
    interleaving: _Interleaving, baseline: list[str], data: st.DataObject
) -> None:
    hints = data.draw(st.permutations(baseline))[: data.draw(st.integers(0, len(baseline)))]
    first, second = (hints, baseline) if interleaving is interleave else (baseline, hints)
    assert interleaving(baseline, hints) == plain.alternate(first, second)


@_BOTH
@pytest.mark.parametrize(
    ("baseline", "hints"),
    [("abca", ""), ("aa", "a"), ("abc", "aa"), ("abc", "aba"), ("abc", "d"), ("abc", "abcd"), ("", "a")],
    ids=lambda names: names or "none",
)
def test_repeats_and_unknown_candidates_are_refused(interleaving: _Interleaving, baseline: str, hints: str) -> None:
    with pytest.raises(ValueError, match="twice|does not have"):
        interleaving(list(baseline), list(hints))


@_BOTH
def test_the_arguments_are_left_as_they_were(interleaving: _Interleaving) -> None:
    baseline, hints = ["a", "b", "c"], ["c", "b"]
    interleaving(baseline, hints)
    assert (baseline, hints) == (["a", "b", "c"], ["c", "b"])
