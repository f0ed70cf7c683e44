"""Every recorded exchange holds, to the byte, in workers that a template forked; four live at a time."""

import itertools
from collections.abc import Iterable, Iterator

import pytest

from hintcell_worker import command
from hintcell_worker.template_protocol import EXIT_REFUSED, Exited
from tests.contract.conformance import Case, load_cases
from tests.manager.template_process import TemplateProcess, exchange, last_words

_AT_A_TIME = 4
_EXIT_STATUSES = {0: 0, 1: EXIT_REFUSED}  # a recording tells success from failure only


def _differing(template: TemplateProcess, cases: Iterable[Case]) -> Iterator[str]:
    """Run these cases in workers that live at the same time, and yield what is not as recorded."""
    workers = []
    for case in cases:
        options = command._parse(case.argv)
        worker = template.ask(
            session=options.session,
            limit=options.limit,
            identifier_hints=options.identifier_hints,
            cursor=options.cursor,
        )
        workers.append((case, worker))
    for _, worker in workers:
        template.forked(worker)
    answers = exchange([(worker.connection, case.stdin) for case, worker in workers])
    for (case, worker), answer in zip(workers, answers, strict=True):
        status = template.hear(Exited, worker.token).status
        message = last_words(worker)
        if (answer, status) != (case.stdout, _EXIT_STATUSES[case.exit]):
            yield f"{case.name}: status {status}, {answer[:200]!r}, {message!r}"
        elif case.exit and not (message.startswith("hintcell-worker: ") and message.count("\n") == 1):
            yield f"{case.name}: fails without one clear line: {message!r}"
        elif not case.exit and message:
            yield f"{case.name}: succeeds and says {message!r}"
        worker.close()


_SESSIONS = [case for case in load_cases() if case.is_session]
_SINGLE_REQUESTS = [case for case in load_cases() if not case.is_session]
_KINDS = {
    "sessions": _SESSIONS,
    "single requests, first half": _SINGLE_REQUESTS[::2],
    "single requests, second half": _SINGLE_REQUESTS[1::2],
}


@pytest.mark.parametrize("kind", _KINDS)
def test_forked_workers_answer_every_recorded_input_to_the_byte(template: TemplateProcess, kind: str) -> None:
    cases = iter(_KINDS[kind])
    differing: list[str] = []
    while group := tuple(itertools.islice(cases, _AT_A_TIME)):
        differing += _differing(template, group)
    assert differing == []


def test_no_recorded_case_is_left_out() -> None:
    tried = [case.name for cases in _KINDS.values() for case in cases]
    assert sorted(tried) == sorted(case.name for case in load_cases())
    assert len(set(tried)) == 383
