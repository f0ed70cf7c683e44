"""Sessions from their opening to their last page, with real processes."""

import os
import threading
from collections.abc import Iterator

import psutil
import pytest

from hintcell import Candidate, Client, Grant, Hints, Page, Session, SessionEnded
from hintcell_worker.protocol import (
    POLICY_BASELINE,
    POLICY_HINTS,
    POLICY_IDENTIFIERS,
    POLICY_IDENTIFIERS_OUT_OF_SCOPE,
)
from tests.client.searches import QUERY, SOON_S, catalog, next_cursor, search

ALL = 4_096


@pytest.fixture
def session(client: Client, grant: Grant) -> Iterator[Session]:
    with search(client, grant) as session:
        yield session


def candidates_of(pages: list[Page]) -> list[Candidate]:
    return [candidate for page in pages for candidate in page.candidates]


def test_a_search_is_read_page_by_page_until_a_permission_change_ends_it(client: Client, principal: str) -> None:
    grant = client.grant(principal, labels=["repo:api"])
    with search(client, grant, limit=20, identifier_hints=True) as session:
        pages = list(session)
        assert [(page.offset, len(page.candidates)) for page in pages] == [(0, 20), (20, 20), (40, 10)]
        assert {page.total for page in pages} == {50}
        assert [page.next_cursor is None for page in pages] == [False, False, True]
        report = client.permission_changed(principal=principal)
        assert [(ended.session_id, ended.pid) for ended in report.ended] == [(session.id, session.pid)]
        with pytest.raises(SessionEnded) as end:
            session.page(pages[0].next_cursor)
        assert end.value.reason == "permission_changed"


def test_the_best_document_comes_first_and_ranks_count_over_all_pages(session: Session) -> None:
    candidates = candidates_of(list(session))
    assert [candidate.inspection_rank for candidate in candidates] == list(range(1, 51))
    scores = [candidate.bm25_score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
    assert {candidate.candidate_id for candidate in candidates} == {document.id for document in catalog()}
    assert candidates[0].candidate_id == "file.py:0"
    assert scores[-1] == 0


def test_a_session_runs_in_a_process_of_its_own(client: Client, grant: Grant) -> None:
    with search(client, grant) as one, search(client, grant) as other:
        template = client.status().template_pid
        assert len({one.pid, other.pid, template, client.manager_pid, os.getpid()}) == 5
        assert {psutil.Process(session.pid).ppid() for session in (one, other)} == {template}


def test_iterating_twice_gives_the_same_pages_twice(session: Session) -> None:
    assert list(session) == list(session)


def test_two_iterations_at_once_do_not_disturb_each_other(session: Session) -> None:
    pairs = list(zip(session, session, strict=True))
    assert all(one == other for one, other in pairs)
    assert len(pairs) == 3


def test_an_iteration_may_be_left_and_a_new_one_starts_at_the_first_page(session: Session) -> None:
    first = next(iter(session))
    assert next(iter(session)) == first


def test_any_page_can_be_read_again_by_its_cursor_also_with_another_limit(session: Session) -> None:
    first = session.page()
    cursor = next_cursor(first)
    second = session.page(cursor)
    assert session.page(next_cursor(second)).offset == 40
    assert session.page(cursor) == second
    assert session.page() == first
    short = session.page(cursor, limit=3)
    assert short.candidates == second.candidates[:3]
    assert session.page(next_cursor(short), limit=ALL).candidates[:17] == second.candidates[3:]


POLICIES = {
    POLICY_BASELINE: (QUERY, False, None),
    POLICY_IDENTIFIERS: (QUERY, True, None),
    POLICY_HINTS: (QUERY, False, Hints("snapshot", QUERY, ["file.py:4", "file.py:30", "file.py:1"])),
    POLICY_IDENTIFIERS_OUT_OF_SCOPE: ("?!", True, None),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_walking_all_pages_with_changing_limits_gives_the_whole_ranking(
    client: Client, grant: Grant, policy: str
) -> None:
    query, identifier_hints, hints = POLICIES[policy]
    with search(client, grant, query=query, limit=ALL, identifier_hints=identifier_hints, hints=hints) as session:
        (whole,) = session
    with search(client, grant, query=query, limit=1, identifier_hints=identifier_hints, hints=hints) as session:
        pages = [session.page()]
        while pages[-1].next_cursor is not None:
            pages.append(session.page(pages[-1].next_cursor, limit=1 + 2 * len(pages) % 11))
    assert candidates_of(pages) == list(whole.candidates)
    assert {(page.policy, page.ranking_sha256) for page in pages} == {(policy, whole.ranking_sha256)}
    assert len(pages) > 5


def test_hints_interleave_and_leave_the_scores_alone(client: Client, grant: Grant) -> None:
    with search(client, grant) as session:
        baseline = {candidate.candidate_id: candidate.bm25_score for candidate in candidates_of(list(session))}
    hints = Hints("snapshot", QUERY, ["file.py:4", "file.py:3"])
    with search(client, grant, hints=hints) as session:
        candidates = candidates_of(list(session))
    assert [candidate.candidate_id for candidate in candidates[:3]] == ["file.py:4", "file.py:0", "file.py:3"]
    assert {candidate.candidate_id: candidate.bm25_score for candidate in candidates} == baseline


def test_sessions_open_from_many_threads_at_once(client: Client, principal: str) -> None:
    threads, each = 8, 3
    barrier = threading.Barrier(threads, timeout=SOON_S)
    read: list[tuple[int, list[str]]] = []

    def open_some(number: int) -> None:
        barrier.wait()
        for _ in range(each):
            documents = catalog(10 + number)
            with search(client, client.grant(f"{principal} {number}"), documents=documents, limit=7) as session:
                read.append((number, [candidate.candidate_id for candidate in candidates_of(list(session))]))

    workers = [threading.Thread(target=open_some, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(number for number, _ in read) == sorted(list(range(threads)) * each)
    for number, ids in read:
        assert sorted(ids) == sorted(document.id for document in catalog(10 + number))


def test_one_session_may_be_read_from_many_threads(session: Session) -> None:
    expected = list(session)
    read: list[list[Page]] = []
    workers = [threading.Thread(target=lambda: read.append(list(session))) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert read == [expected] * 6


def test_the_manager_knows_each_session_while_it_lives_and_how_it_ended(client: Client, principal: str) -> None:
    grant = client.grant(principal, labels=["b", "a"])
    with search(client, grant, snapshot_id="seen") as session:
        session.page()
        (status,) = (each for each in client.status(full_memory=True).sessions if each.session_id == session.id)
        assert (status.principal, status.labels, status.snapshot_id) == (principal, ("b", "a"), "seen")
        assert (status.state, status.pid) == ("running", session.pid)
        memory = status.memory
        assert memory.state == "measured"
        assert 0 < (memory.uss_bytes or 0) < (memory.pss_bytes or 0) < (memory.rss_bytes or 0)
        assert (memory.rss_bytes or 0) <= (memory.peak_rss_bytes or 0)
    end = client.end_of(session.id)
    assert (end.reason, end.exit_status, end.stderr_tail) == ("completed", 0, "")
    assert session.id not in {each.session_id for each in client.status().sessions}


def test_a_client_made_in_a_thread_that_has_ended_works_on(client_type: type[Client]) -> None:
    made: list[Client] = []
    thread = threading.Thread(target=lambda: made.append(client_type()))
    thread.start()
    thread.join()
    with made[0] as client, search(client, client.grant("alice")) as session:
        assert session.page().total == 50
