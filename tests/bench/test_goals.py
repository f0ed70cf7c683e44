"""Goals are compared the right way round, and none is forgotten."""

import pytest

from bench import session
from bench.__main__ import BUDGETS_S, OVERALL_S, kept_name, not_measured
from bench.goals import GOALS, MIB, figure, goals_of, measured
from bench.one import module_of
from bench.results import Machine, Part, Run
from bench.sessions import POLICIES, MemoryBytes
from bench.timing import Spread

_ROWS_OF_THE_TABLE = 13


def _run(*parts: Part) -> Run:
    machine = Machine(2, "A cpu <of> ours", 2**33, "Linux", "3.11", {"hintcell": "0"}, "3.40")
    return Run("2026-01-02T03:04:05+00:00", "abc", 1.0, machine, parts, 1.0)


def test_every_row_of_the_table_has_a_goal_and_every_goal_a_part() -> None:
    assert {goal.row for goal in GOALS} == set(range(1, _ROWS_OF_THE_TABLE + 1))
    assert len({goal.name for goal in GOALS}) == len(GOALS)
    assert {goal.name.partition(": ")[0] for goal in GOALS} <= set(BUDGETS_S)
    assert sum(len(goals_of(part)) for part in BUDGETS_S) == len(GOALS)


@pytest.mark.parametrize("name", list(BUDGETS_S))
def test_a_part_loads_without_the_libraries_that_it_compares_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("tantivy", "bm25s", "rank_bm25", "matplotlib"):
        monkeypatch.setitem(__import__("sys").modules, library, None)
    assert callable(module_of(name).measure)


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_a_goal_is_reached_at_its_bound_and_missed_beyond_it(goal) -> None:
    worse = goal.bound - 0.5 if goal.sense == "≥" else goal.bound + 0.5
    better = goal.bound + 0.5 if goal.sense == "≥" else goal.bound - 0.5
    assert [figure(goal.name, value, goal.unit).holds for value in (goal.bound, better, worse)] == [True, True, False]


def test_only_opens_per_second_shall_be_large() -> None:
    assert [goal.row for goal in GOALS if goal.sense == "≥"] == [8]


def test_a_figure_in_another_unit_than_its_goal_is_refused() -> None:
    with pytest.raises(ValueError, match="goal in 'µs'"):
        figure("session: page turn, plain, p50", 0.09, "ms")


def test_a_figure_without_a_goal_neither_holds_nor_misses() -> None:
    assert figure("anything", Spread(1.0, 0.5, 2.0, 7), "ms").holds is None


def test_a_goal_that_was_not_measured_is_listed_as_such() -> None:
    made = figure(GOALS[0].name, 0.5, "×")
    listed = measured(_run(Part("peers", "", [made])))
    assert listed[0] == (GOALS[0], made)
    assert [found for _, found in listed[1:]] == [None] * (len(GOALS) - 1)


def test_a_part_that_forgets_one_of_its_goals_is_found_out() -> None:
    figures = [figure(goal.name, 1.0, goal.unit) for goal in goals_of("memory")]
    assert not_measured(Part("memory", "", figures)) == []
    assert not_measured(Part("memory", "", figures[1:])) == [figures[0].name]


def test_a_session_is_held_against_its_goals() -> None:
    look = MemoryBytes(4 * MIB, 3 * MIB, 2 * MIB, 5 * MIB)
    taken = session.Taken([0.1, 0.2, 0.3], [0.2, 0.4, 0.6], [0.000_05] * 98 + [0.002] * 2, [look], [look])
    made = {one.name: one for policy in POLICIES for one in session.figures_of(policy, taken)}
    assert not_measured(Part("session", "", list(made.values()))) == []
    values = {name.removeprefix("session: "): one.value for name, one in made.items() if "plain" in name}
    assert values == {
        "first page, plain": pytest.approx(200),
        "all pages, plain": pytest.approx(400),
        "all pages against the first, plain": pytest.approx(2),
        "page turn, plain, p50": pytest.approx(50),
        "page turn, plain, p99": pytest.approx(2_000),
        "USS after the first page, plain": 2,
        "USS after the last page, plain": 2,
        "peak RSS, plain": 5,
    }


def test_the_whole_run_is_bounded_even_if_every_part_uses_up_its_time() -> None:
    assert sum(BUDGETS_S.values()) <= OVERALL_S == 15 * 60


def test_a_kept_run_is_named_after_its_date_and_machine() -> None:
    assert kept_name(_run(), "A cpu (TM) @ 3 GHz/x") == "2026-01-02T0304-a-cpu-tm-3-ghz-x.json"
