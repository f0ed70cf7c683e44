"""The searches behind the tools, with a real manager: what a watch ends, what its own end does, and new managers."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from hintcell import Client, ControlFailed, Document
from hintcell.integrations.mcp import Backend, Settings
from hintcell.integrations.mcp.backend import Revoking, Watcher
from hintcell.searches import Documents, Results, Searches, SearchFailed, Snapshot
from tests.client.cli.processes import FOLLOW_DEADLINE_S, wait_until
from tests.client.searches import serving, short_directory

_LABEL = "test:policy"


def _catalog(_principal: str, _globs: Sequence[str]) -> Snapshot:
    return Documents("snapshot", [Document(f"file.py:{number}:f", "needle") for number in range(5)])


class _Watching:
    """A watcher that does what a test tells it."""

    def __init__(self) -> None:
        self.starts = 0
        self.ends = 0
        self.revoking: Revoking | None = None
        self.failure: Exception | None = None
        self.leave = threading.Event()

    def __call__(self, revoking: Revoking, stop: threading.Event, watched: Callable[[], None]) -> None:
        self.starts += 1
        self.revoking = revoking
        if self.failure is not None:
            raise self.failure
        watched()
        while not stop.wait(0.001) and not self.leave.is_set():
            pass
        self.ends += 1


@pytest.fixture
def watching() -> _Watching:
    return _Watching()


@contextlib.contextmanager
def _backend(watcher: Watcher | None = None, **settings: object) -> Iterator[Backend]:
    backend = Backend(_catalog, Settings(principal="alice", labels=(_LABEL,), watcher=watcher, **settings))  # type: ignore[arg-type]
    try:
        yield backend
    finally:
        backend.close()


def _reason(call: Callable[[], object]) -> str:
    with pytest.raises(SearchFailed) as failed:
        call()
    return failed.value.reason


def test_nothing_is_started_before_the_first_search(watching: _Watching) -> None:
    with _backend(watching) as backend:
        assert _reason(lambda: backend.read("s", "c", 1)) == "unknown_session"
        assert backend.close_search("s") is False
        assert watching.starts == 0


def test_the_watch_begins_before_the_first_search_and_ends_with_the_backend(watching: _Watching) -> None:
    with _backend(watching) as backend:
        backend.search("needle", (), 1)
        backend.search("needle", (), 1)
        assert (watching.starts, watching.ends) == (1, 0)
    assert watching.ends == 1


def test_what_the_watch_ends_is_told_each_time_and_a_new_search_works(watching: _Watching) -> None:
    with _backend(watching) as backend:
        page = backend.search("needle", (), 1)
        assert watching.revoking is not None
        assert len(watching.revoking.permission_changed(labels=[_LABEL]).ended) == 1
        for _ in range(2):
            assert _reason(lambda: backend.read(page.session, page.next_cursor or "", 1)) == "permission_changed"
        again = backend.search("needle", (), 1)
        assert backend.read(again.session, again.next_cursor or "", 4).next_cursor is None


def test_the_watch_ends_sessions_of_its_own_principal_alone(watching: _Watching) -> None:
    with (
        short_directory() as directory,
        serving(directory),
        Client(directory) as other,
        _backend(watching, directory=directory) as backend,
    ):
        documents = [Document("a", "needle"), Document("b", "needle")]
        bobs = other.open(other.grant("bob", [_LABEL]), snapshot_id="s", query="needle", documents=documents, limit=1)
        page = backend.search("needle", (), 1)
        assert watching.revoking is not None
        assert watching.revoking.permission_changed(principal="bob", labels=[_LABEL]).ended == ()
        assert [end.session_id for end in watching.revoking.permission_changed(labels=[_LABEL]).ended] == [page.session]
        assert len(list(bobs)) == 2


def test_a_watch_that_cannot_begin_serves_nothing_and_the_next_search_tries_again(watching: _Watching) -> None:
    watching.failure = ControlFailed("a process did not die")
    with _backend(watching) as backend:
        assert _reason(lambda: backend.search("needle", (), 1)) == "unavailable"
        watching.failure = None
        assert backend.search("needle", (), 1).total == 5


def test_a_watch_that_ends_takes_the_searches_with_it_and_the_next_search_begins_another(watching: _Watching) -> None:
    with _backend(watching) as backend:
        page = backend.search("needle", (), 1)
        watching.leave.set()
        wait_until(lambda: watching.ends == 1, FOLLOW_DEADLINE_S)
        wait_until(
            lambda: _reason(lambda: backend.read(page.session, page.next_cursor or "", 1)) == "unavailable",
            FOLLOW_DEADLINE_S,
        )
        watching.leave.clear()
        assert backend.search("needle", (), 1).total == 5
        assert watching.starts == 2


def test_searches_from_many_threads_share_one_manager(watching: _Watching) -> None:
    with _backend(watching) as backend:
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.append(backend.search("needle", (), 1).total)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [5] * 8
        assert watching.starts == 1


@pytest.mark.parametrize(("times", "reason"), [(1, None), (2, "permission_changed")])
def test_a_search_that_a_permission_change_ended_on_the_way_is_tried_once_more(
    monkeypatch: pytest.MonkeyPatch, times: int, reason: str | None
) -> None:
    search = Searches.search
    failures = [SearchFailed("permission_changed", "search again")] * times

    def interrupted(self: Searches, *arguments: Any, **more: Any) -> Results:
        if failures:
            raise failures.pop()
        return search(self, *arguments, **more)

    monkeypatch.setattr(Searches, "search", interrupted)
    with _backend() as backend:
        if reason is None:
            assert backend.search("needle", (), 1).total == 5
        else:
            assert _reason(lambda: backend.search("needle", (), 1)) == reason


def test_after_its_end_nothing_is_started_any_more() -> None:
    with _backend() as backend:
        pass
    assert _reason(lambda: backend.search("needle", (), 1)) == "unavailable"


def test_a_shared_manager_that_came_back_is_found_by_the_next_search() -> None:
    with short_directory() as directory, _backend(directory=directory) as backend:
        assert _reason(lambda: backend.search("needle", (), 1)) == "unavailable"
        with serving(directory):
            page = backend.search("needle", (), 1)
        assert _reason(lambda: backend.read(page.session, page.next_cursor or "", 1)) == "manager_stopped"
        assert _reason(lambda: backend.search("needle", (), 1)) == "unavailable"
        with serving(directory):
            assert backend.search("needle", (), 1).total == 5
