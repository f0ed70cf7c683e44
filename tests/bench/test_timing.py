"""What is made of times. None of these tests looks at a clock."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.timing import MIN_ROUNDS, alternating, distribution, quantile, ratio, rounds, spread

_VALUES = st.lists(st.floats(0.001, 1e6), min_size=2, max_size=40)


@given(_VALUES)
def test_quantiles_are_those_of_the_standard_library(values: list[float]) -> None:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    assert spread(values) == (pytest.approx(middle), pytest.approx(low), pytest.approx(high), len(values))
    assert quantile(values, 0.5) == pytest.approx(statistics.median(values))


@given(_VALUES)
def test_the_ends_are_the_smallest_and_the_largest(values: list[float]) -> None:
    assert (quantile(values, 0), quantile(values, 1)) == (min(values), max(values))


def test_p99_of_a_hundred_and_one_values_is_the_hundredth() -> None:
    assert quantile([float(value) for value in range(101)], 0.99) == 99


@pytest.mark.parametrize(("values", "fraction"), [([], 0.5), ([1.0], 1.01), ([1.0], -0.01)])
def test_a_quantile_of_nothing_is_refused(values: list[float], fraction: float) -> None:
    with pytest.raises(ValueError, match="quantile"):
        quantile(values, fraction)


def test_a_ratio_is_ours_over_theirs() -> None:
    assert ratio([1.0, 2.0, 3.0], [4.0, 4.0, 4.0]) == (0.5, 0.375, 0.625, 3)


def test_a_ratio_needs_as_many_rounds_of_both() -> None:
    with pytest.raises(ValueError, match="zip"):
        ratio([1.0, 2.0], [1.0])


def test_contenders_take_turns_and_take_turns_at_being_first() -> None:
    order: list[str] = []
    contenders = {name: lambda name=name: order.append(name) or float(len(order)) for name in "abc"}
    values = alternating(contenders, 3)
    assert "".join(order) == "abcbcacab"
    assert {name: len(found) for name, found in values.items()} == {"a": 3, "b": 3, "c": 3}


def test_no_round_is_begun_when_the_time_is_up_but_there_are_enough_for_quartiles() -> None:
    assert len(alternating({"a": lambda: 1.0}, 100, budget_s=-1.0)["a"]) == MIN_ROUNDS
    assert rounds(40, 0.0) == MIN_ROUNDS
    assert rounds(40, 0.5) == 20


def test_a_distribution_ends_at_the_largest_with_all_of_them() -> None:
    assert distribution([3.0, 1.0]) == ([1.0, 3.0], [0.5, 1.0])
