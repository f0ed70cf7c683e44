"""Searches by handle: who may use one, what ends one, and what is said then."""

import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from hintcell import Client, Document, HintcellError, Limits
from hintcell.catalog import CatalogError
from hintcell.catalog.model import Location
from hintcell.searches import Documents, Hit, Results, Searches, SearchFailed, Snapshot
from tests.client.searches import QUERY, SOON_S, catalog

_DOCUMENTS = catalog()


def _everything(_principal: str, _globs: Sequence[str]) -> Snapshot:
    return Documents("snapshot", _DOCUMENTS)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client() as client:
        yield client


@pytest.fixture
def searches(client: Client) -> Iterator[Searches]:
    with Searches(client, _everything) as searches:
        yield searches


def _reason(call: Callable[[], object]) -> str:
    with pytest.raises(SearchFailed) as failed:
        call()
    assert "\n" not in str(failed.value)
    return failed.value.reason


def _open_sessions(client: Client, principal: str) -> int:
    return sum(session.principal == principal for session in client.status().sessions)


def _all_end(client: Client, principal: str) -> bool:
    until = time.monotonic() + SOON_S
    while _open_sessions(client, principal) and time.monotonic() < until:
        time.sleep(0.01)
    return _open_sessions(client, principal) == 0


def test_all_pages_hold_every_document_once(searches: Searches, principal: str) -> None:
    results = searches.search(principal, QUERY, limit=20)
    hits = list(results.hits)
    while results.next_cursor is not None:
        results = searches.read(principal, results.session, results.next_cursor, limit=7)
        hits += results.hits
    assert [hit.rank for hit in hits] == list(range(1, len(_DOCUMENTS) + 1))
    assert {hit.id for hit in hits} == {document.id for document in _DOCUMENTS}
    assert results.total == len(_DOCUMENTS)


def test_hits_say_where_they_are_and_results_what_is_missing(client: Client, principal: str) -> None:
    place = Location("a/b.py", 7, "C.read")
    snapshot = Documents("s", [Document("a", "read"), Document("b", "write")], {"a": place}, {"links": 2})
    with Searches(client, lambda *_: snapshot) as searches:
        results = searches.search(principal, "read")
    assert results.hits == [
        Hit(1, "a", "a/b.py", 7, "C.read", results.hits[0].score),
        Hit(2, "b", "", 0, "", 0.0),
    ]
    assert (results.snapshot_id, results.left_out, results.next_cursor) == ("s", {"links": 2}, None)


def test_the_catalog_is_asked_for_the_principal_and_its_globs_after_the_grant(client: Client, principal: str) -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def source(who: str, globs: Sequence[str]) -> Snapshot:
        asked.append((who, globs))
        if len(asked) == 1:  # Permissions change while what may be read is being decided.
            client.permission_changed(principal=who)
        return _everything(who, globs)

    with Searches(client, source) as searches:
        assert searches.search(principal, QUERY, globs=["src/**"]).total == len(_DOCUMENTS)
    assert asked == [(principal, ["src/**"])] * 2


def test_permissions_that_keep_changing_refuse_a_search(client: Client, principal: str) -> None:
    def source(who: str, globs: Sequence[str]) -> Snapshot:
        client.permission_changed(labels=["label"])
        return _everything(who, globs)

    with Searches(client, source, labels=["label"]) as searches:
        assert _reason(lambda: searches.search(principal, QUERY)) == "refused"
    assert _open_sessions(client, principal) == 0


def test_a_permission_change_ends_a_search_and_another_works_at_once(
    client: Client, searches: Searches, principal: str
) -> None:
    results = searches.search(principal, QUERY, limit=5)
    client.permission_changed(principal=principal)
    assert results.next_cursor is not None
    for _ in range(2):  # It is told as often as it is asked.
        assert _reason(_reading_on(searches, principal, results)) == "permission_changed"
    assert searches.search(principal, QUERY).total == len(_DOCUMENTS)


def test_a_permission_change_ends_the_giving_of_texts(client: Client, searches: Searches, principal: str) -> None:
    results = searches.search(principal, QUERY)
    client.permission_changed(principal=principal)
    assert _reason(lambda: searches.text_of(principal, results.session, results.hits[0].id)) == "permission_changed"


def _reading_on(searches: Searches, principal: str, results: Results) -> Callable[[], Results]:
    return lambda: searches.read(principal, results.session, results.next_cursor or "")


def test_a_search_is_unknown_to_everybody_else(searches: Searches, principal: str) -> None:
    results = searches.search(principal, QUERY, limit=5)
    other = f"{principal} 2"
    assert _reason(_reading_on(searches, other, results)) == "unknown_session"
    assert _reason(lambda: searches.text_of(other, results.session, results.hits[0].id)) == "unknown_session"
    assert searches.close_search(other, results.session) is False
    assert searches.close_search(principal, results.session) is True
    # How it ended is told to nobody else either.
    assert _reason(_reading_on(searches, other, results)) == "unknown_session"
    assert _reason(_reading_on(searches, principal, results)) == "completed"


def test_a_cursor_or_limit_that_cannot_be_used_ends_nothing(searches: Searches, principal: str) -> None:
    results = searches.search(principal, QUERY, limit=5)
    other = searches.search(principal, "write", limit=5)
    assert other.next_cursor is not None
    for cursor in ("", "made up", other.next_cursor):
        assert _reason(lambda cursor=cursor: searches.read(principal, results.session, cursor)) == "bad_argument"
    for limit in (0, -1, 4_097):
        reading = _reading_with(searches, principal, results, limit)
        assert _reason(reading) == "bad_argument"
    assert len(_reading_on(searches, principal, results)().hits) == 20


def _reading_with(searches: Searches, principal: str, results: Results, limit: int) -> Callable[[], Results]:
    return lambda: searches.read(principal, results.session, results.next_cursor or "", limit=limit)


@pytest.mark.parametrize("query", ["", " \n", "\ud800", "x" * 8_193])
def test_queries_that_cannot_be_asked_start_nothing(
    client: Client, searches: Searches, principal: str, query: str
) -> None:
    assert _reason(lambda: searches.search(principal, query)) == "bad_argument"
    assert _open_sessions(client, principal) == 0


def test_nobody_asks_for_nothing(searches: Searches) -> None:
    assert _reason(lambda: searches.search(" ", QUERY)) == "bad_argument"


def test_texts_are_given_by_id(searches: Searches, principal: str) -> None:
    results = searches.search(principal, QUERY)
    texts: Mapping[str, str] = {document.id: document.text for document in _DOCUMENTS}
    assert searches.text_of(principal, results.session, results.hits[3].id) == texts[results.hits[3].id]
    assert _reason(lambda: searches.text_of(principal, results.session, "none")) == "bad_argument"


def test_one_search_more_than_allowed_closes_the_longest_unused(client: Client, principal: str) -> None:
    with Searches(client, _everything, max_sessions=3) as searches:
        first, second, third = (searches.search(principal, QUERY, limit=5) for _ in range(3))
        other = searches.search(f"{principal} 2", QUERY, limit=5)
        _reading_on(searches, principal, first)()
        searches.search(principal, QUERY, limit=5)
        assert _reason(_reading_on(searches, principal, second)) == "evicted"
        for kept in (first, third):
            _reading_on(searches, principal, kept)()
        _reading_on(searches, f"{principal} 2", other)()


def test_as_many_searches_as_allowed_are_kept(client: Client, principal: str) -> None:
    with Searches(client, _everything, max_sessions=6) as searches:
        opened = [searches.search(principal, QUERY, limit=5) for _ in range(6)]
        for results in opened:
            _reading_on(searches, principal, results)()


def test_what_the_catalog_says_is_told(client: Client, principal: str) -> None:
    def source(_principal: str, _globs: Sequence[str]) -> Snapshot:
        raise CatalogError("there is nothing")

    with Searches(client, source) as searches, pytest.raises(SearchFailed, match="^there is nothing$") as failed:
        searches.search(principal, QUERY)
    assert failed.value.reason == "no_catalog"


def test_a_request_that_the_worker_rejects_is_told_as_such(client: Client, principal: str) -> None:
    with Searches(client, _everything, limits=Limits(max_documents=10)) as searches:
        assert _reason(lambda: searches.search(principal, QUERY)) == "rejected"


def test_a_crashed_worker_is_told_as_such(searches: Searches, client: Client, principal: str) -> None:
    results = searches.search(principal, QUERY, limit=5)
    (pid,) = (session.pid for session in client.status().sessions if session.session_id == results.session)
    os.kill(pid, signal.SIGKILL)
    assert _reason(_reading_on(searches, principal, results)) == "crashed"


def test_closing_ends_all_and_starts_nothing_more(client: Client, principal: str) -> None:
    searches = Searches(client, _everything)
    results = searches.search(principal, QUERY, limit=5)
    searches.close()
    assert _reason(_reading_on(searches, principal, results)) == "unavailable"
    assert _reason(lambda: searches.search(principal, QUERY)) == "unavailable"
    assert _all_end(client, principal)


def test_closing_during_a_search_does_not_advise_another(client: Client, principal: str) -> None:
    def source(_principal: str, _globs: Sequence[str]) -> Snapshot:
        searches.close()
        return Documents("snapshot", _DOCUMENTS)

    searches = Searches(client, source)
    with pytest.raises(SearchFailed, match="^searching is over here: this was closed$"):
        searches.search(principal, QUERY)
    assert _all_end(client, principal)


def test_more_threads_than_searches_wait_for_each_other(client: Client, principal: str) -> None:
    places = threading.Semaphore(2)
    totals: list[int] = []

    def retrieve() -> None:
        with searches.searching(principal, QUERY, limit=5) as results:
            assert places.acquire(blocking=False)
            hits = list(results.hits)
            while results.next_cursor is not None:
                results = searches.read(principal, results.session, results.next_cursor)
                hits += results.hits
            totals.append(len(hits))
            places.release()

    with Searches(client, _everything, max_sessions=2) as searches:
        threads = [threading.Thread(target=retrieve) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert totals == [len(_DOCUMENTS)] * 8
    assert _all_end(client, principal)


def test_a_search_that_finds_no_place_in_time_says_so(client: Client, principal: str) -> None:
    with Searches(client, _everything, max_sessions=1, open_wait_s=0.0) as searches:
        with searches.searching(principal, QUERY, limit=5) as results:
            assert _reason(lambda: searches.search(principal, QUERY)) == "busy"
            searches.search(f"{principal} 2", QUERY)
            _reading_on(searches, principal, results)()
        assert _reason(_reading_on(searches, principal, results)) == "completed"
        searches.search(principal, QUERY)


def test_a_search_that_fails_gives_its_place_back(client: Client, principal: str) -> None:
    def source(_principal: str, globs: Sequence[str]) -> Snapshot:
        if globs:
            raise CatalogError("there is nothing")
        return Documents("snapshot", _DOCUMENTS)

    with Searches(client, source, max_sessions=1, open_wait_s=0.0) as searches:
        kept = searches.search(principal, QUERY, limit=5)
        assert _reason(lambda: searches.search(principal, QUERY, globs=["*.py"])) == "no_catalog"
        _reading_on(searches, principal, kept)()
        searches.search(principal, QUERY)


@pytest.mark.parametrize("options", [{"max_sessions": 0}, {"open_wait_s": -1.0}, {"open_wait_s": float("nan")}])
def test_a_number_without_a_meaning_is_refused(client: Client, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(options))} is"):
        Searches(client, _everything, **options)


def test_a_client_that_is_gone_is_said_in_one_line(principal: str) -> None:
    with Client() as client:
        searches = Searches(client, _everything)
    assert _reason(lambda: searches.search(principal, QUERY)) == "unavailable"


def test_threads_search_side_by_side(searches: Searches, principal: str) -> None:
    totals: list[int] = []

    def search(turn: int) -> None:
        who = f"{principal} {turn}"
        results = searches.search(who, QUERY, limit=10)
        while results.next_cursor is not None:
            results = searches.read(who, results.session, results.next_cursor)
        totals.append(results.total)

    threads = [threading.Thread(target=search, args=(turn,)) for turn in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert totals == [len(_DOCUMENTS)] * 6


def test_an_ended_search_keeps_no_document(client: Client, principal: str) -> None:
    class Marked(Documents, frozen=True, weakref=True):
        """A snapshot of which it can be seen that it is gone."""

    seen: list[weakref.ref[Snapshot]] = []

    def source(_principal: str, _globs: Sequence[str]) -> Snapshot:
        snapshot = Marked("snapshot", _DOCUMENTS)
        seen.append(weakref.ref(snapshot))
        return snapshot

    with Searches(client, source) as searches:
        results = searches.search(principal, QUERY, limit=5)
        client.permission_changed(principal=principal)
        assert _reason(_reading_on(searches, principal, results)) == "permission_changed"
        gc.collect()
        assert [reference() for reference in seen] == [None]


def test_failures_are_errors_of_hintcell() -> None:
    assert issubclass(SearchFailed, HintcellError)
