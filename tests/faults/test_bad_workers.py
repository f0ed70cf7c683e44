"""Workers that crash or chatter, and parents that treat the ends of children in their own way."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client, SessionEnded
from tests.client.searches import QUERY, catalog, search
from tests.faults.patches import Patches
from tests.faults.processes import Family, assert_none_left

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
