"""Every recorded exchange holds in the protocol core; a few of every kind hold in the cold command too."""

from operator import attrgetter

import pytest

from tests.contract.conformance import Case, converse_as, load_cases, run_cold

_COLD = (
    "demo-raw",  # a single request
    "hints-limit",  # the first page of a single request
    "page-008-next",  # a later page of a single request, with identifiers
    "session-061",  # a session of many pages
    "invalid-utf8-text",  # input that is not UTF-8
    "session-good-then-bad",  # pages, then a failure
    "stateless-cursor-other-digest",  # a failure after ranking
    "cursor-garbage",
    "limit-over",
    "query-blank",
    "deep-nesting",
    "session-empty-input",
)
_BY_NAME = {case.name: case for case in load_cases()}


@pytest.mark.parametrize("case", load_cases(), ids=attrgetter("name"))
def test_the_core_answers_a_recorded_input_to_the_byte(case: Case) -> None:
    outcome = converse_as(case.argv, [case.stdin])
    assert outcome.stdout == case.stdout
    assert (outcome.error is not None) == (case.exit != 0)


@pytest.mark.parametrize("name", _COLD)
def test_the_cold_command_answers_a_recorded_input_to_the_byte(name: str) -> None:
    case = _BY_NAME[name]
    ended = run_cold(case.argv, case.stdin)
    assert ended.stdout == case.stdout
    if case.exit == 0:
        assert (ended.returncode, ended.stderr) == (0, b"")
    else:
        assert ended.returncode == 2
        assert ended.stderr.startswith(b"hintcell-worker: ")
        assert ended.stderr.count(b"\n") == 1
        assert ended.stderr.endswith(b"\n")
        assert b"Traceback" not in ended.stderr


def test_no_recorded_case_is_lost(conformance_cases: tuple[Case, ...]) -> None:
    assert len(conformance_cases) == len(_BY_NAME) == 383
