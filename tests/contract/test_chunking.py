"""How the input arrives changes nothing: cut, packed, with CRLF, truncated."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker.protocol import MAX_CONTINUATION_BYTES
from tests.contract.conformance import Case, Outcome, converse_as, load_cases

_SESSIONS = [case for case in load_cases() if case.is_session]
_GOOD_SESSIONS = [case for case in _SESSIONS if case.exit == 0]
_SMALL_GOOD_SESSIONS = [case for case in _GOOD_SESSIONS if len(case.stdin) <= 520]
_GOOD_SINGLES = [case for case in load_cases() if not case.is_session and case.exit == 0]


def _assert_as_recorded(outcome: Outcome, case: Case) -> None:
    assert outcome.stdout == case.stdout, case.name
    assert (outcome.error is not None) == (case.exit != 0), case.name


@given(st.sampled_from(load_cases()), st.lists(st.floats(0, 1), max_size=8))
def test_cutting_the_input_anywhere_changes_no_byte(case: Case, places: list[float]) -> None:
    cuts = [0, *sorted(int(place * len(case.stdin)) for place in places), len(case.stdin)]
    _assert_as_recorded(converse_as(case.argv, [case.stdin[a:b] for a, b in itertools.pairwise(cuts)]), case)


@given(st.sampled_from(_SESSIONS), st.integers(-3, 3))
def test_cutting_a_session_near_its_line_ends_changes_no_byte(case: Case, shift: int) -> None:
    ends = [place + shift for place, byte in enumerate(case.stdin) if byte == ord("\n")]
    cuts = [0, *(min(max(end, 0), len(case.stdin)) for end in ends), len(case.stdin)]
    _assert_as_recorded(converse_as(case.argv, [case.stdin[a:b] for a, b in itertools.pairwise(cuts)]), case)


def test_one_byte_at_a_time_changes_no_byte() -> None:
    small = [case for case in load_cases() if len(case.stdin) <= 3000]
    assert len(small) > 200
    for case in small:
        _assert_as_recorded(converse_as(case.argv, (case.stdin[i : i + 1] for i in range(len(case.stdin)))), case)


@pytest.mark.parametrize("cases", [_SESSIONS, _GOOD_SINGLES], ids=["sessions", "singles"])
def test_lines_may_end_with_crlf(cases: list[Case]) -> None:
    for case in cases:
        stdin = case.stdin.replace(b"\n", b"\r\n")
        if all(len(line) < MAX_CONTINUATION_BYTES for line in stdin.split(b"\n")[1:]):
            _assert_as_recorded(converse_as(case.argv, [stdin]), case)


def _assert_whole_answers_or_an_error(case: Case, size: int) -> None:
    """The first `size` bytes of a good session: each complete line is answered, and what is left over is an error
    unless it is a complete JSON value."""
    lines = case.stdin[:size].split(b"\n")
    left_over = lines.pop()
    try:
        json.loads(left_over)
        answered = len(lines) + 1
    except ValueError:
        answered = len(lines)
    outcome = converse_as(case.argv, [case.stdin[:size]])
    assert outcome.answers == case.stdout.splitlines(keepends=True)[:answered], (case.name, size)
    ends_between_lines = size > 0 and not left_over
    assert (outcome.error is None) == (ends_between_lines or answered > len(lines)), (case.name, size)


@given(st.sampled_from(_GOOD_SESSIONS), st.floats(0, 1))
def test_a_truncated_session_gives_whole_answers_only(case: Case, place: float) -> None:
    _assert_whole_answers_or_an_error(case, int(place * len(case.stdin)))


def test_a_session_truncated_at_any_byte_gives_whole_answers_only() -> None:
    assert any(case.stdin.count(b"\n") > 2 for case in _SMALL_GOOD_SESSIONS)
    for case in _SMALL_GOOD_SESSIONS:
        for size in range(len(case.stdin) + 1):
            _assert_whole_answers_or_an_error(case, size)


@given(st.sampled_from(_GOOD_SINGLES), st.floats(0, 1))
def test_a_truncated_request_gives_the_whole_answer_or_an_error(case: Case, place: float) -> None:
    text = case.stdin[: int(place * len(case.stdin))]
    outcome = converse_as(case.argv, [text])
    if text.rstrip() == case.stdin.rstrip():
        _assert_as_recorded(outcome, case)
    else:
        assert outcome.answers == []
        assert outcome.error is not None
