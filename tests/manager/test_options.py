"""Each of the manager's options, on a real manager: what it ends, refuses or replaces, and when."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hintcell import Client, ManagerOptions, OpenRefused, Page, Session, SessionEnded
from hintcell.conversation import Conversation
from hintcell_manager.protocol import DOOR_NAME, Admitted
from tests.client.searches import catalog, next_cursor, search
from tests.faults.patches import Patches
from tests.faults.processes import SOON_S, Watched, assert_none_left, until

SAMPLE_S = 0.05


@contextlib.contextmanager
def a_client(**options: object) -> Iterator[Client]:
    """A client whose manager runs with these options and has its template."""
    with Client(options=ManagerOptions(sample_interval_s=SAMPLE_S, **options)) as client:  # type: ignore[arg-type]
        search(client, client.grant("warm")).close()
        until(lambda: not client.status().sessions)
        yield client


# --- time ---


def test_a_session_that_is_asked_nothing_ends_and_one_that_is_asked_lives_on() -> None:
    idle_s = 1.0
    with a_client(idle_timeout_s=idle_s) as client, search(client, client.grant("busy")) as busy:
        cursor = next_cursor(busy.page())
        with search(client, client.grant("idle")) as idle, Watched(idle.pid) as worker:
            idle.page()
            since = time.monotonic()
            while not worker.has_exited(idle_s / 20):
                assert busy.page(cursor).offset == 20
                assert time.monotonic() - since < SOON_S
            with pytest.raises(SessionEnded) as end:
                idle.page(cursor)
        assert time.monotonic() - since >= idle_s / 2
        assert (end.value.reason, end.value.message) == ("idle_timeout", f"nothing was asked for {idle_s:g} s")
        assert busy.page(cursor).offset == 20


def test_a_session_whose_worker_is_stopped_or_cannot_write_is_idle_too() -> None:
    documents = catalog(4_096, text_bytes=300)
    with a_client(idle_timeout_s=0.3) as client, search(client, client.grant("stopped")) as session:
        session.page()
        with Watched(session.pid) as stopped:
            stopped.stop()
            assert stopped.has_exited(SOON_S)
        with search(client, client.grant("unread"), documents=documents, limit=4_096) as unread:
            with Watched(unread.pid) as blocked:
                assert blocked.has_exited(SOON_S)
            assert client.end_of(session.id).reason == client.end_of(unread.id).reason == "idle_timeout"


def test_a_worker_that_ranks_for_longer_than_the_idle_timeout_is_not_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Patches(tmp_path, monkeypatch).template(_COMPUTES)
    with a_client(idle_timeout_s=0.3) as client, search(client, client.grant("alice"), query="long") as session:
        assert session.page().total == 50


def test_a_session_that_never_sends_its_request_is_idle_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_client(idle_timeout_s=0.3) as client:
        monkeypatch.setattr(Session, "begin", lambda *_: None)
        session = search(client, client.grant("alice"))
        with Watched(session.pid) as worker:
            assert worker.has_exited(SOON_S)
        assert client.end_of(session.id).reason == "idle_timeout"


def test_a_session_ends_at_its_lifetime_however_busy_it_is() -> None:
    with a_client(lifetime_s=0.5) as client, search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())

        def read_on() -> None:
            since = time.monotonic()
            while time.monotonic() - since < SOON_S:
                session.page(cursor)

        with pytest.raises(SessionEnded) as end:
            read_on()
        assert (end.value.reason, end.value.exit_status) == ("lifetime", -9)
        assert end.value.message == "the session reached its lifetime of 0.5 s"
        assert client.status().ended["lifetime"] >= 1


_SLEEPS = """
import time
from hintcell_worker import ranking
rank = ranking.rank
def slowly(request, *arguments, **options):
    if "stuck" in request.query:
        time.sleep(600)
    return rank(request, *arguments, **options)
ranking.rank = slowly
"""


_COMPUTES = """
import time
from hintcell_worker import ranking
rank = ranking.rank
def slowly(request, *arguments, **options):
    since = time.process_time()
    while "long" in request.query and time.process_time() - since < 0.9:
        pass
    return rank(request, *arguments, **options)
ranking.rank = slowly
"""


def test_only_ranking_counts_for_the_ranking_deadline() -> None:
    documents = catalog(4_096, text_bytes=300)
    with a_client(ranking_deadline_s=0.5) as client:
        with search(client, client.grant("slow reader"), documents=documents, limit=4_096) as session:
            time.sleep(1.0)
            assert session.page().total == 4_096
        conversation = Conversation(client.grant("slow writer"), "s", 1, identifier_hints=False)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(os.fspath(client.directory / DOOR_NAME))
            connection.sendall(conversation.knock())
            assert isinstance(conversation.receive(connection.recv(4_096)), Admitted)
            request = conversation.request("read", catalog(2), None)
            connection.sendall(request[:10])
            time.sleep(1.0)
            connection.sendall(request[10:])
            assert isinstance(conversation.receive(connection.recv(4_096)), Page)


def test_a_worker_that_is_stuck_in_ranking_is_killed_at_its_deadline_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Patches(tmp_path, monkeypatch).template(_SLEEPS)
    with a_client(ranking_deadline_s=0.5) as client, search(client, client.grant("bob")) as other:
        cursor = next_cursor(other.page())
        with search(client, client.grant("alice"), query="stuck") as session, Watched(session.pid) as worker:
            with pytest.raises(SessionEnded) as end:
                session.page()
            assert_none_left([worker])
        assert end.value.reason == "crashed"
        assert "ranking took over 0.5 s" in end.value.message
        assert other.page(cursor).offset == 20, "its own first answer came in time, and later ones have no deadline"


# --- numbers ---


def test_more_sessions_than_allowed_are_refused_until_one_is_closed() -> None:
    with a_client(max_sessions=2, open_wait_s=0.2) as client:
        with search(client, client.grant("a")) as first, search(client, client.grant("b")):
            with pytest.raises(OpenRefused, match="2 sessions are open, of 2: close one first") as refusal:
                search(client, client.grant("c"))
            assert refusal.value.reason == "too_many_sessions"
            first.close()
            with search(client, client.grant("c")) as session:
                assert session.page().total == 50
        assert client.status().refused == {"too_many_sessions": 1}


def test_one_principal_cannot_take_the_sessions_of_others() -> None:
    with (
        a_client(max_sessions_per_principal=1, open_wait_s=0.2) as client,
        search(client, client.grant("alice")) as session,
    ):
        with pytest.raises(OpenRefused, match="this principal has 1 sessions open, of 1") as refusal:
            search(client, client.grant("alice"))
        assert refusal.value.reason == "too_many_sessions"
        with search(client, client.grant("bob")) as other:
            assert other.page().total == session.page().total == 50


def test_a_session_that_was_closed_takes_no_place_from_the_next() -> None:
    with a_client(max_sessions=1, max_sessions_per_principal=1) as client:
        for _ in range(30):
            search(client, client.grant("alice")).close()
        assert client.status().refused == {}


# --- launchers ---


def test_a_worn_template_is_replaced_without_a_gap() -> None:
    with a_client(template_max_forks=4) as client:
        first = client.status().template_pid
        assert first is not None
        with search(client, client.grant("stays")) as stays, Watched(first) as template:
            cursor = next_cursor(stays.page())
            parents = set()
            for number in range(12):
                with search(client, client.grant(f"{number}")) as session:
                    parents.add(psutil.Process(session.pid).ppid())
                    assert session.page().total == 50
                if number in {3, 7}:
                    worn = client.status().template_pid
                    until(lambda worn=worn: client.status().template_pid not in {worn, None})  # type: ignore[misc]
            assert first in parents
            assert len(parents) >= 3
            assert client.status().retired_templates >= 1
            assert stays.page(cursor).offset == 20, "a retired template keeps its workers"
            stays.close()
            assert template.has_exited(SOON_S), "and leaves with the last of them"
        assert set(client.status().ended) == {"completed"}


def test_a_template_is_replaced_at_its_age_if_it_has_forked() -> None:
    with a_client(template_max_age_s=0.2) as client:
        first = client.status().template_pid
        search(client, client.grant("alice")).close()
        until(lambda: client.status().template_pid not in {first, None})


def test_with_exec_each_worker_is_an_interpreter_of_its_own() -> None:
    with a_client(launcher="exec") as client:
        status = client.status()
        assert (status.template_pid, status.template_memory) == (None, None)
        with search(client, client.grant("a")) as one, search(client, client.grant("b")) as other:
            assert [page.total for page in one] == [50] * 3
            assert list(one) == list(other)
            workers = [psutil.Process(session.pid) for session in (one, other)]
            assert [worker.ppid() for worker in workers] == [client.manager_pid] * 2
            assert all("hintcell_worker.fresh" in worker.cmdline() for worker in workers)
            layouts = [{mapping.addr for mapping in worker.memory_maps(grouped=False)} for worker in workers]
            assert layouts[0] != layouts[1]
            with Watched(one.pid) as watched:
                client.permission_changed(principal="a")
                assert watched.has_exited()
            with pytest.raises(SessionEnded, match="permission_changed"):
                one.page()
            assert other.page().total == 50


def test_the_options_of_a_manager_are_told_by_its_status() -> None:
    options = ManagerOptions(lifetime_s=7.0, max_sessions=3, launcher="exec")
    with Client(options=options) as client:
        assert client.status().options == options


def test_options_for_a_shared_manager_are_refused(place: Path) -> None:
    with pytest.raises(ValueError, match="hintcell serve"):
        Client(place, options=ManagerOptions())
