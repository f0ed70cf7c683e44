"""The three promises about a permission change (I1, I2, I3), on real processes."""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hintcell import Client, Grant, HintcellError, OpenRefused, Session, SessionEnded
from tests.client.searches import catalog, next_cursor, search
from tests.faults.patches import Patches
from tests.faults.processes import Family, Watched, assert_none_left, has_answer, unread, until, until_more


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client() as client:
        search(client, client.grant("warm")).close()
        yield client


def test_when_a_change_returns_every_matching_process_is_dead(client: Client) -> None:
    # So many, each with so much to give back, that the last is not dead before the answer unless somebody waited.
    documents = catalog(4_000, text_bytes=500)
    with contextlib.ExitStack() as stack:
        grant = client.grant("alice")
        sessions = [stack.enter_context(search(client, grant, documents=documents)) for _ in range(20)]
        workers = [stack.enter_context(Watched(session.pid)) for session in sessions]
        stays = stack.enter_context(search(client, client.grant("bob")))
        report = client.permission_changed(principal="alice")
        assert [worker.has_exited() for worker in workers] == [True] * 20
        assert {ended.pid for ended in report.ended} == {worker.pid for worker in workers}
        assert_none_left(workers)
        assert stays.page().total == 50


def test_a_page_that_lay_in_the_socket_is_not_delivered_after_a_change(client: Client) -> None:
    with search(client, client.grant("alice")) as session:
        until(lambda: has_answer(session))
        client.permission_changed(principal="alice")
        assert has_answer(session), "the page is still there to be read: only the client can withhold it"
        with pytest.raises(SessionEnded) as end:
            session.page()
        assert end.value.reason == "permission_changed"
        with pytest.raises(SessionEnded):
            list(session)


def test_a_page_that_was_read_before_a_change_is_not_delivered_again(client: Client) -> None:
    with search(client, client.grant("alice")) as session:
        pages = iter(session)
        cursor = next_cursor(next(pages))
        client.permission_changed(principal="alice")
        reads: list[Callable[[], object]] = [
            session.page,
            lambda: session.page(cursor),
            lambda: next(pages),
            lambda: next(iter(session)),
        ]
        for read in reads:
            with pytest.raises(SessionEnded) as end:
                read()
            assert end.value.reason == "permission_changed"


def test_a_page_on_its_way_when_a_change_returns_is_not_delivered(client: Client) -> None:
    """A page larger than a socket's buffer: the worker is killed with a part of it unsent."""
    documents = catalog(4_096)
    with search(client, client.grant("alice"), documents=documents, limit=4_096) as session:
        until(lambda: len(unread(session)) > 64 * 1024)
        assert not has_answer(session)
        client.permission_changed(principal="alice")
        with pytest.raises(SessionEnded, match="permission_changed"):
            session.page()


def test_an_older_grant_is_refused_after_a_change(client: Client) -> None:
    grant = client.grant("alice")
    client.permission_changed(principal="alice")
    with pytest.raises(OpenRefused) as refusal:
        search(client, grant)
    assert refusal.value.reason == "permission_changed"


class Racer(threading.Thread):
    """Opens sessions as fast as it can, under grants as old as they get before they are refused.

    `changed` is the epoch of the last change that had returned. Whatever it was before a call is what the call must
    respect: neither an open nor a page may succeed under an older grant.
    """

    changed = 0

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.stopping = threading.Event()
        self.opened: list[tuple[Grant, Session]] = []
        self.violations: list[str] = []
        self.pages = 0
        self.errors: Counter[tuple[type[HintcellError], str]] = Counter()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._use(self._client.grant("alice"))
            except (OpenRefused, SessionEnded) as error:
                self.errors[type(error), error.reason] += 1

    def _use(self, grant: Grant) -> None:
        while not self.stopping.is_set():
            before = Racer.changed
            session = search(self._client, grant)
            self.opened.append((grant, session))
            if grant.epoch < before:
                self.violations.append("opened under an outdated grant")
            for _ in range(3):
                before = Racer.changed
                session.page()
                self.pages += 1
                if grant.epoch < before:
                    self.violations.append("delivered under an outdated grant")


def test_racing_opens_are_ended_or_refused_and_never_missed(client: Client) -> None:
    racers = [Racer(client) for _ in range(4)]
    Racer.changed = 0
    for racer in racers:
        racer.start()
    try:
        for _ in range(25):
            until_more(lambda: sum(racer.pages for racer in racers), by=5)
            changed = client.permission_changed(principal="alice").epoch
            Racer.changed = changed
            running = {status.session_id for status in client.status().sessions if status.state == "running"}
            older = {session.id for racer in racers for grant, session in racer.opened[:] if grant.epoch < changed}
            assert running & older == set()
    finally:
        for racer in racers:
            racer.stopping.set()
        for racer in racers:
            racer.join()
    client.permission_changed(principal="alice")
    errors = sum((racer.errors for racer in racers), Counter())
    assert set(errors) == {(OpenRefused, "permission_changed"), (SessionEnded, "permission_changed")}
    for racer in racers:
        assert racer.violations == []
        for _, session in racer.opened:
            with pytest.raises(SessionEnded, match="permission_changed"):
                session.page()
            session.close()


# The template stops itself where the scheduler might hold it up: between its report of a fork and what comes next.
_STOP_AFTER_THE_REPORT = """
import os, pathlib, signal, socket
send_fds = socket.send_fds
def send_and_stop(control, packets, descriptors):
    stop = b"forked" in packets[0] and pathlib.Path(os.environ["XDG_RUNTIME_DIR"], "stop").exists()
    send_fds(control, packets, descriptors)
    if stop:
        os.kill(os.getpid(), signal.SIGSTOP)
socket.send_fds = send_and_stop
"""


def test_a_template_that_is_held_up_after_a_fork_does_not_make_a_dead_worker_look_alive(
    patches: Patches, runtime: Path
) -> None:
    patches.template(_STOP_AFTER_THE_REPORT)
    stop = runtime / "stop"
    with Client() as client:
        search(client, client.grant("warm")).close()
        with Family(client) as family:
            stop.touch()
            try:
                with search(client, client.grant("alice")) as session:
                    until(lambda: has_answer(session))
                    client.permission_changed(principal="alice")
                    with pytest.raises(SessionEnded):
                        session.page()
            finally:
                stop.unlink()
                family.template.resume()


def test_without_pidfds_in_the_kernel_a_change_still_ends_what_it_matches(patches: Patches, runtime: Path) -> None:
    patches.template("import os; del os.pidfd_open")
    with Client() as client, search(client, client.grant("alice")) as session, Watched(session.pid) as worker:
        session.page()
        report = client.permission_changed(principal="alice")
        assert [ended.pid for ended in report.ended] == [session.pid]
        assert worker.has_exited()
        with pytest.raises(SessionEnded, match="permission_changed"):
            session.page()
