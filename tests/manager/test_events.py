"""Events as a client hears them: what a real manager decided, in order, and only while somebody listens."""

import threading
from collections.abc import Callable, Iterator

import pytest

from hintcell import Client, ManagerEvent, ManagerOptions, OpenRefused
from tests.client.searches import search
from tests.faults.processes import SOON_S, Watched, until


class Listener(threading.Thread):
    """Keeps the events that a client hears from now on."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.heard: list[ManagerEvent] = []
        self._events = client.events()
        self.start()

    def run(self) -> None:
        for event in self._events:
            self.heard.append(event)

    def first(self, wanted: Callable[[ManagerEvent], bool]) -> ManagerEvent:
        """The first of the events that is wanted, waited for."""
        until(lambda: any(wanted(event) for event in list(self.heard)))
        return next(event for event in self.heard if wanted(event))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(options=ManagerOptions(max_sessions_per_principal=2)) as client:
        search(client, client.grant("warm")).close()
        yield client


@pytest.fixture(scope="module")
def listener(client: Client) -> Listener:
    return Listener(client)


def test_a_session_is_heard_when_it_opens_and_when_it_has_ended(client: Client, listener: Listener) -> None:
    with search(client, client.grant("alice"), snapshot_id="secret-snapshot", query="secret config") as session:
        session.page()
        opened = listener.first(lambda event: event.session_id == session.id)
        assert (opened.kind, opened.principal, opened.pid) == ("opened", "alice", session.pid)
    ended = listener.first(lambda event: event.session_id == session.id and event.kind == "ended")
    assert (ended.reason, ended.principal, ended.pid) == ("completed", "alice", session.pid)
    assert (ended.took_s or 0) > 0
    assert (ended.peak_rss_bytes or 0) > 1024 * 1024
    assert "secret" not in repr(listener.heard)


def test_a_permission_change_is_heard_with_its_count_and_so_is_each_end_that_it_made(
    client: Client, listener: Listener
) -> None:
    with search(client, client.grant("bob")) as one, search(client, client.grant("bob")) as other:
        client.permission_changed(principal="bob")
    changed = listener.first(lambda event: event.kind == "permission_changed" and event.count == 2)
    assert changed.principal is None
    assert (changed.took_s or 0) > 0
    for session in (one, other):  # Dead before the change is told; the exit status, and so the end, may come later.
        ended = listener.first(lambda event, of=session.id: event.kind == "ended" and event.session_id == of)  # type: ignore[misc]
        assert ended.reason == "permission_changed"


def test_refusals_are_heard_with_their_reason(client: Client, listener: Listener) -> None:
    outdated = client.grant("carol")
    client.permission_changed(principal="carol")
    with pytest.raises(OpenRefused):
        search(client, outdated)
    refused = listener.first(lambda event: event.kind == "refused" and event.principal == "carol")
    assert (refused.reason, refused.session_id, refused.pid) == ("permission_changed", None, None)
    with search(client, client.grant("dave")), search(client, client.grant("dave")), pytest.raises(OpenRefused):
        search(client, client.grant("dave"))
    refused = listener.first(lambda event: event.kind == "refused" and event.principal == "dave")
    assert refused.reason == "too_many_sessions"


def test_two_who_listen_hear_the_same(client: Client, listener: Listener) -> None:
    other = Listener(client)
    with search(client, client.grant("erin")) as session:
        pass
    heard = [
        [each.first(lambda event, kind=kind: event.session_id == session.id and event.kind == kind) for kind in kinds]  # type: ignore[misc]
        for each, kinds in ((listener, ("opened", "ended")), (other, ("opened", "ended")))
    ]
    assert heard[0] == heard[1]


def test_who_listens_hears_the_end_of_the_client_and_stops() -> None:
    with Client() as client:
        listener = Listener(client)
        client.close()
        listener.join(SOON_S)
        assert not listener.is_alive()


def test_who_listens_stops_when_the_manager_is_killed() -> None:
    with Client() as client:
        listener = Listener(client)
        with Watched(client.manager_pid) as manager:
            manager.kill()
        listener.join(SOON_S)
        assert not listener.is_alive()
