"""Workers and templates that crash, chatter, stand still or belong to a strange parent."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client, DeadlineExceeded, OpenRefused, SessionEnded
from tests.client.searches import QUERY, SOON_S, catalog, next_cursor, search
from tests.faults.patches import Patches
from tests.faults.processes import Family, Watched, assert_none_left, until

# Runs `misbehave()` in a worker that ranks, on the texts that it was given; not in the template, which ranks its own.
_WHILE_RANKING = """
import os, sys
from hintcell_worker import ranking
rank, template = ranking.rank, os.getpid()
def badly(request, *arguments, **options):
    if os.getpid() != template:
        misbehave(request)
    return rank(request, *arguments, **options)
ranking.rank = badly
"""


@pytest.fixture
def misbehaving(patches: Patches, runtime: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client whose workers run this body of `misbehave(request)` before they rank."""
    patches.template(_WHILE_RANKING + "def misbehave(request):\n    " + "\n    ".join(request.param.splitlines()))
    with Client() as client:
        yield client


def bad_worker(code: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("misbehaving", [code], indirect=True, ids=[""])


@bad_worker("print('stray')\nos.write(1, b'stray')\nos.system('echo stray; echo stray >&2')\nsys.stdout.flush()")
def test_what_a_worker_prints_never_gets_between_two_pages(misbehaving: Client) -> None:
    with search(misbehaving, misbehaving.grant("alice")) as session:
        assert [page.offset for page in session] == [0, 20, 40]
    assert misbehaving.end_of(session.id).reason == "completed"


@bad_worker("for _ in range(10):\n    os.write(2, b'x' * 1_000_000)")
def test_ten_megabytes_on_standard_error_hold_up_nobody_and_are_not_kept(misbehaving: Client) -> None:
    with search(misbehaving, misbehaving.grant("warm")) as session:
        session.page()
    before = misbehaving.status().memory.rss_bytes or 0
    with search(misbehaving, misbehaving.grant("alice")) as one, search(misbehaving, misbehaving.grant("bob")) as other:
        assert one.page().total == other.page().total == 50
    assert (misbehaving.status().memory.rss_bytes or 0) - before < 5_000_000


@bad_worker("for _ in range(10):\n    os.write(2, b'x' * 1_000_000)\nos.write(2, b'the end')\nos._exit(3)")
def test_a_crash_after_ten_megabytes_tells_the_last_of_them(misbehaving: Client) -> None:
    with search(misbehaving, misbehaving.grant("alice")) as session, pytest.raises(SessionEnded) as end:
        session.page()
    assert (end.value.reason, end.value.exit_status) == ("crashed", 3)
    assert end.value.stderr_tail.endswith("xxxthe end")
    assert len(end.value.stderr_tail) <= 4_096


@bad_worker("import traceback\ntraceback.print_stack()\nos.abort()")
def test_a_crash_tells_its_signal_and_its_last_words(misbehaving: Client) -> None:
    with search(misbehaving, misbehaving.grant("alice")) as session, pytest.raises(SessionEnded) as end:
        session.page()
    assert (end.value.reason, end.value.exit_status) == ("crashed", -signal.SIGABRT)
    assert "in misbehave" in end.value.stderr_tail
    assert misbehaving.end_of(session.id).stderr_tail == end.value.stderr_tail


@bad_worker("raise ValueError(request.query, request.documents[0].text)")
def test_a_bug_in_the_worker_is_told_by_its_place_and_not_by_what_it_quotes(misbehaving: Client) -> None:
    with search(misbehaving, misbehaving.grant("alice")) as session, pytest.raises(SessionEnded) as end:
        session.page()
    assert (end.value.reason, end.value.exit_status) == ("crashed", 1)
    assert "ValueError at" in end.value.stderr_tail
    assert QUERY not in end.value.stderr_tail
    assert catalog()[0].text.strip() not in end.value.stderr_tail


@bad_worker("raise MemoryError")
def test_a_worker_without_memory_says_so(misbehaving: Client) -> None:
    with search(misbehaving, misbehaving.grant("alice")) as session, pytest.raises(SessionEnded) as end:
        session.page()
    assert end.value.reason == "crashed"
    assert "out of memory" in end.value.stderr_tail


def test_a_stopped_worker_is_killed_by_a_change(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Watched(session.pid) as worker:
        worker.stop()
        report = client.permission_changed(principal="alice")
        assert worker.has_exited()
        assert report.took_s < 1
        assert_none_left([worker])
        with pytest.raises(SessionEnded, match="permission_changed"):
            session.page()


def test_a_stopped_worker_ends_with_its_client(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Watched(session.pid) as worker:
        worker.stop()
        client.close()
        assert_none_left([worker])


def test_a_page_of_a_stopped_worker_is_not_waited_for_longer_than_was_said(runtime: Path) -> None:
    with Client(page_deadline_s=0.2) as client, search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())
        with Watched(session.pid) as worker:
            worker.stop()
            with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
                session.page(cursor)
            with pytest.raises(SessionEnded):
                session.page(cursor)


def test_a_worker_that_missed_its_deadline_is_gone_when_the_caller_knows(runtime: Path) -> None:
    with Client(page_deadline_s=0.2) as client, search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())
        with Watched(session.pid) as worker:
            worker.stop()
            with pytest.raises(DeadlineExceeded):
                session.page(cursor)
            assert_none_left([worker])


def test_a_stopped_template_hides_no_death(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Family(client, session) as family:
        (worker,) = family.workers
        session.page()
        family.template.stop()
        report = client.permission_changed(principal="alice")
        assert worker.has_exited()
        assert report.took_s < 1
        with pytest.raises(SessionEnded) as end:
            session.page()
        assert end.value.reason == "permission_changed"
        family.template.resume()
        assert_none_left([worker])


def test_a_second_change_does_not_report_what_the_first_has_ended(client: Client) -> None:
    with search(client, client.grant("alice")), Family(client) as family:
        family.template.stop()
        assert len(client.permission_changed(principal="alice").ended) == 1
        assert client.permission_changed(principal="alice").ended == ()


_IMPATIENT = "from hintcell_manager import service; service.{deadline} = 0.3"


def test_a_change_while_a_stopped_template_owes_a_worker_replaces_the_template(patches: Patches, runtime: Path) -> None:
    patches.manager(_IMPATIENT.format(deadline="DEATH_DEADLINE_S"))
    with Client() as client:
        search(client, client.grant("warm")).close()
        grant = client.grant("alice")
        outcome: list[OpenRefused] = []

        def open_one() -> None:
            with pytest.raises(OpenRefused) as refusal:
                search(client, grant)
            outcome.append(refusal.value)

        thread = threading.Thread(target=open_one)
        with Family(client) as family:
            family.template.stop()
            thread.start()
            until(lambda: [session.state for session in client.status().sessions] == ["starting"])
            client.permission_changed(principal="alice")
            assert family.template.has_exited()
        thread.join(SOON_S)
        assert [refusal.reason for refusal in outcome] == ["permission_changed"]
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50


def test_a_template_that_does_not_answer_is_replaced(patches: Patches, runtime: Path) -> None:
    patches.manager(_IMPATIENT.format(deadline="FORK_DEADLINE_S"))
    with Client() as client, search(client, client.grant("warm")) as session, Family(client, session) as family:
        family.template.stop()
        with pytest.raises(OpenRefused) as refusal:
            search(client, client.grant("alice"))
        assert refusal.value.reason == "cannot_start"
        assert_none_left([family.template, *family.workers])
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50


def test_a_client_closes_although_its_template_is_stopped(client: Client) -> None:
    with Family(client) as family:
        family.template.stop()
        client.close()
        assert_none_left(family.all())


def assert_ends_are_told(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Family(client, session) as family:
        session.page()
        session.close()
        assert_none_left(family.workers)
        end = client.end_of(session.id)
        assert (end.reason, end.exit_status) == ("completed", 0)


def test_a_parent_that_ignores_the_ends_of_children_changes_nothing(runtime: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with Client() as client, Family(client) as family:
            assert_ends_are_told(client)
            client.close()
            assert_none_left(family.all())
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("blocked", [{signal.SIGCHLD}, signal.valid_signals()], ids=["SIGCHLD", "all"])
def test_a_parent_that_blocks_signals_changes_nothing(runtime: Path, blocked: set[signal.Signals]) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        client = Client()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with client:
        assert_ends_are_told(client)
