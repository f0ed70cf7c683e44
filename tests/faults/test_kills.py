"""SIGKILL of the manager, of the template and of a worker, at several moments of a session.

Whatever was killed and when: within a second nothing of what must die is left, not even a zombie, what survives gets
an error that says what happened, and the next start finds nothing in its way.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import psutil
import pytest

from hintcell import Client, HintcellError, ManagerUnavailable, OpenRefused, Session, SessionEnded
from tests.client.searches import SOON_S, catalog, next_cursor, search
from tests.faults.processes import Family, Watched, assert_none_left, unread, until, until_more

pytestmark = pytest.mark.usefixtures("adopted_orphans")

# Near the limit of 2 MiB, which takes a tenth of a second to rank.
LARGE = catalog(4_096, text_bytes=512)

# What a survivor does at the kill or after it; it must raise.
Survivor = Callable[[], object]


@contextlib.contextmanager
def before_the_request(client: Client) -> Iterator[tuple[Session, Survivor]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "begin", lambda *_: None)
        session = search(client, client.grant("alice"))
    with session:
        yield session, session.page


@contextlib.contextmanager
def ranking(client: Client) -> Iterator[tuple[Session, Survivor]]:
    for _ in range(20):
        with search(client, client.grant("alice"), documents=LARGE) as session:
            if not unread(session):
                yield session, session.page
                return
    raise AssertionError("every answer was there before it could be looked for")


@contextlib.contextmanager
def after_the_first_page(client: Client) -> Iterator[tuple[Session, Survivor]]:
    with search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())
        yield session, lambda: session.page(cursor)


@contextlib.contextmanager
def turning(client: Client) -> Iterator[tuple[Session, Survivor]]:
    with search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())
        turned = 0
        outcome: list[HintcellError] = []

        def turn() -> None:
            nonlocal turned
            try:
                while True:
                    session.page(cursor, limit=1)
                    turned += 1
            except HintcellError as error:
                outcome.append(error)

        def join() -> None:
            thread.join(SOON_S)
            assert not thread.is_alive()
            raise outcome[0]

        thread = threading.Thread(target=turn)
        thread.start()
        until(lambda: turned > 5)
        yield session, join


Moment = Callable[[Client], AbstractContextManager[tuple[Session, Survivor]]]
at_every_moment = pytest.mark.parametrize(
    "moment", [before_the_request, ranking, after_the_first_page, turning], ids=lambda moment: moment.__name__
)


@at_every_moment
def test_the_death_of_a_worker_ends_its_session_and_no_other(shared_client: Client, moment: Moment) -> None:
    client = shared_client
    with (
        search(client, client.grant("stays")) as stays,
        moment(client) as (session, survivor),
        Family(client, session, stays) as family,
    ):
        killed, other = family.workers
        killed.kill()
        assert_none_left([killed])
        with pytest.raises(SessionEnded, match="signal 9") as end:
            survivor()
        assert (end.value.reason, end.value.exit_status) == ("crashed", -9)
        with pytest.raises(SessionEnded, match="crashed"):
            session.page()
        assert client.end_of(session.id).reason == "crashed"
        assert stays.page().total == 50
        assert not any(process.has_exited() for process in (family.manager, family.template, other))


@at_every_moment
def test_the_death_of_the_template_ends_every_session_and_the_next_open_works(
    shared_client: Client, moment: Moment
) -> None:
    client = shared_client
    with (
        search(client, client.grant("bob")) as other,
        moment(client) as (session, survivor),
        Family(client, session, other) as family,
    ):
        family.template.kill()
        assert_none_left([family.template, *family.workers])
        for call in (survivor, session.page, other.page):
            with pytest.raises(SessionEnded) as end:
                call()
            assert end.value.reason == "crashed"
            # 1: so newly forked that it found its parent gone before the kernel was asked to kill it.
            assert end.value.exit_status in {-9, 1}
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50
        assert client.status().template_pid not in {None, family.template.pid}
        assert not family.manager.has_exited()


@at_every_moment
def test_the_death_of_the_manager_ends_everything(client: Client, moment: Moment) -> None:
    grant = client.grant("alice")
    with (
        search(client, client.grant("bob")) as other,
        moment(client) as (session, survivor),
        Family(client, session, other) as family,
    ):
        family.manager.kill()
        assert_none_left([family.template, *family.workers])
        for call in (survivor, session.page, other.page):
            with pytest.raises(SessionEnded) as end:
                call()
            assert end.value.reason == "manager_stopped"
        for unavailable in (lambda: client.grant("alice"), lambda: search(client, grant), client.status):
            with pytest.raises(ManagerUnavailable):
                unavailable()
        client.close()
        assert not family.manager.is_left()


@contextlib.contextmanager
def open_in_a_thread(client: Client) -> Iterator[Survivor]:
    """An open that has reached the manager; the survivor raises what became of it."""
    grant = client.grant("alice")
    outcome: list[HintcellError] = []

    def open_one() -> None:
        try:
            with search(client, grant) as session:
                session.page()
        except HintcellError as error:
            outcome.append(error)

    def join() -> None:
        thread.join(SOON_S)
        assert not thread.is_alive()
        if outcome:
            raise outcome[0]

    thread = threading.Thread(target=open_one)
    thread.start()
    until(lambda: client.status().sessions)
    yield join
    thread.join(SOON_S)


@pytest.mark.parametrize("moment", ["loading", "forking"])
@pytest.mark.parametrize("victim", ["manager", "template"])
def test_a_death_while_a_session_is_opened_refuses_it(runtime: object, victim: str, moment: str) -> None:
    """While the template loads, or when it was asked to fork and has not answered (because it is stopped)."""
    with Client() as client:
        if moment == "forking":
            search(client, client.grant("warm")).close()
            until(lambda: not client.status().sessions)
        with Family(client) as family:
            if moment == "forking":
                family.template.stop()
            with open_in_a_thread(client) as opening:
                assert client.status().sessions[0].state == ("admitted" if moment == "loading" else "starting")
                (family.template if victim == "template" else family.manager).kill()
                assert_none_left([family.template])
                if victim == "template":
                    with pytest.raises(OpenRefused, match="template") as refusal:
                        opening()
                    assert refusal.value.reason == "cannot_start"
                    with search(client, client.grant("alice")) as session:
                        assert session.page().total == 50
                else:
                    with pytest.raises(ManagerUnavailable):
                        opening()
            client.close()
            assert not family.manager.is_left()


def kill_if_there(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError), Watched(pid) as process:
        process.kill()


@pytest.mark.parametrize("victim", ["worker", "template"])
def test_deaths_among_many_opens_give_typed_errors_and_leave_a_manager_that_opens(
    shared_client: Client, victim: str
) -> None:
    client = shared_client
    stopping = threading.Event()
    opened = 0
    ended: list[tuple[str, int | None]] = []

    def open_some() -> None:
        nonlocal opened
        while not stopping.is_set():
            try:
                with search(client, client.grant("alice")) as session:
                    session.page()
                opened += 1
            except OpenRefused as refusal:
                ended.append((refusal.reason, None))
            except SessionEnded as end:
                ended.append((end.reason, end.exit_status))

    threads = [threading.Thread(target=open_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2 if victim == "template" else 20):
            more = len(ended)
            while len(ended) == more:
                status = client.status()
                pids = [session.pid for session in status.sessions] if victim == "worker" else [status.template_pid]
                for pid in pids:
                    if pid is not None:
                        kill_if_there(pid)
            until_more(lambda: opened)
    finally:
        stopping.set()
        for thread in threads:
            thread.join(SOON_S)
    assert not any(thread.is_alive() for thread in threads)
    assert set(ended) <= {("crashed", -9), ("crashed", 1), ("cannot_start", None)}
    until(lambda: not client.status().sessions)
