"""Grants and permission changes: which sessions a change ends, which grants it outdates, and no others."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from hintcell import Client, ControlFailed, Grant, OpenRefused, Session, SessionEnded
from tests.client.cli.processes import wait_until
from tests.client.searches import next_cursor, search

# Of each session: its principal, its labels and its snapshot.
SESSIONS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "alice api": ("alice", ("repo:api",), "s1"),
    "alice web": ("alice", ("repo:web", "team:a"), "s2"),
    "bob api": ("bob", ("repo:api", "team:b"), "s1"),
    "carol": ("carol", (), "s2"),
}
SELECTORS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "principal": ({"principal": "alice"}, {"alice api", "alice web"}),
    "a principal nobody is": ({"principal": "ali"}, set()),
    "one label": ({"labels": ["repo:api"]}, {"alice api", "bob api"}),
    "any of labels": ({"labels": ["team:a", "team:b", "team:c"]}, {"alice web", "bob api"}),
    "a label nobody has": ({"labels": ["repo"]}, set()),
    "snapshot": ({"snapshot_id": "s2"}, {"alice web", "carol"}),
    "principal and label": ({"principal": "alice", "labels": ["repo:api", "team:b"]}, {"alice api"}),
    "principal and snapshot": ({"principal": "bob", "snapshot_id": "s2"}, set()),
    "all three": ({"principal": "bob", "labels": ["team:b"], "snapshot_id": "s1"}, {"bob api"}),
    "everyone": ({"everyone": True}, set(SESSIONS)),
}


@pytest.fixture
def sessions(client: Client) -> Iterator[dict[str, Session]]:
    wait_until(lambda: not client.status().sessions)  # A change may still end those of tests before, being closed.
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(search(client, client.grant(principal, labels), snapshot_id=snapshot))
            for name, (principal, labels, snapshot) in SESSIONS.items()
        }


def assert_ended(session: Session) -> None:
    with pytest.raises(SessionEnded) as end:
        session.page()
    assert (end.value.reason, end.value.exit_status) == ("permission_changed", -9)


@pytest.mark.parametrize(("selector", "matching"), SELECTORS.values(), ids=SELECTORS)
def test_a_change_ends_exactly_what_matches_all_that_it_names(
    client: Client, sessions: dict[str, Session], selector: dict[str, Any], matching: set[str]
) -> None:
    firsts = {name: session.page() for name, session in sessions.items()}
    report = client.permission_changed(**selector)
    assert {(ended.session_id, ended.pid) for ended in report.ended} == {
        (sessions[name].id, sessions[name].pid) for name in matching
    }
    assert all(0 <= ended.died_after_s <= report.took_s for ended in report.ended)
    for name, session in sessions.items():
        if name in matching:
            assert_ended(session)
        else:
            assert session.page(next_cursor(firsts[name])).offset == 20


def test_a_change_may_name_one_session(client: Client, sessions: dict[str, Session]) -> None:
    ended = sessions.pop("bob api")
    report = client.permission_changed(session_id=ended.id)
    assert [each.session_id for each in report.ended] == [ended.id]
    assert_ended(ended)
    for session in sessions.values():
        assert session.page().total == 50


def test_a_session_and_a_principal_that_is_not_its_own_match_nothing(
    client: Client, sessions: dict[str, Session]
) -> None:
    report = client.permission_changed(session_id=sessions["bob api"].id, principal="alice")
    assert report.ended == ()
    assert sessions["bob api"].page().total == 50


def test_a_second_change_finds_nothing_more_to_end(client: Client, sessions: dict[str, Session]) -> None:
    first = client.permission_changed(principal="alice")
    second = client.permission_changed(principal="alice")
    assert (len(first.ended), len(second.ended)) == (2, 0)
    assert second.epoch == first.epoch + 1


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ({}, "must name"),
        ({"labels": []}, "labels is empty"),
        ({"everyone": True, "principal": "alice"}, "excludes"),
        ({"everyone": True, "labels": ["a"]}, "excludes"),
    ],
)
def test_a_change_that_names_nobody_or_contradicts_itself_fails_and_ends_nothing(
    client: Client, sessions: dict[str, Session], selector: dict[str, Any], message: str
) -> None:
    epoch = client.status().epoch
    with pytest.raises(ControlFailed, match=message):
        client.permission_changed(**selector)
    assert client.status().epoch == epoch
    for session in sessions.values():
        assert session.page().total == 50


def test_a_single_label_given_as_a_string_is_not_silently_without_effect(
    client: Client, sessions: dict[str, Session]
) -> None:
    with contextlib.suppress(TypeError, ControlFailed):
        client.permission_changed(labels="repo:api")
        assert_ended(sessions["bob api"])


@pytest.mark.parametrize("selector", [{"principal": ""}, {"snapshot_id": ""}, {"labels": [""]}])
def test_a_change_that_names_a_blank_is_refused(client: Client, selector: dict[str, Any]) -> None:
    with pytest.raises(ControlFailed):
        client.permission_changed(**selector)


def assert_refused(client: Client, grant: Grant, reason: str, snapshot_id: str = "s1") -> None:
    with pytest.raises(OpenRefused) as refusal:
        search(client, grant, snapshot_id=snapshot_id)
    assert refusal.value.reason == reason
    assert "new grant" in str(refusal.value)


OUTDATING = [selector for selector, matching in SELECTORS.values() if "alice api" in matching]


@pytest.mark.parametrize("selector", OUTDATING)
def test_a_grant_older_than_a_matching_change_is_refused_and_a_newer_one_is_not(
    client: Client, selector: dict[str, Any]
) -> None:
    principal, labels, snapshot_id = SESSIONS["alice api"]
    old = client.grant(principal, labels)
    client.permission_changed(**selector)
    assert_refused(client, old, "permission_changed", snapshot_id)
    with search(client, client.grant(principal, labels), snapshot_id=snapshot_id) as session:
        assert session.page().total == 50


NOT_OUTDATING = [selector for selector, matching in SELECTORS.values() if "alice api" not in matching]


@pytest.mark.parametrize("selector", NOT_OUTDATING)
def test_a_grant_outlives_the_changes_that_do_not_match_it(client: Client, selector: dict[str, Any]) -> None:
    principal, labels, snapshot_id = SESSIONS["alice api"]
    grant = client.grant(principal, labels)
    client.permission_changed(**selector)
    with search(client, grant, snapshot_id=snapshot_id) as session:
        assert session.page().total == 50


def test_a_change_over_one_snapshot_outdates_the_grant_for_that_snapshot_alone(client: Client, grant: Grant) -> None:
    client.permission_changed(snapshot_id="s1")
    assert_refused(client, grant, "permission_changed", "s1")
    with search(client, grant, snapshot_id="s2") as session:
        assert session.page().total == 50


def test_the_end_of_one_session_leaves_its_grant_in_force(client: Client, grant: Grant) -> None:
    with search(client, grant) as session:
        client.permission_changed(session_id=session.id)
        assert_ended(session)
    with search(client, grant) as session:
        assert session.page().total == 50


def test_an_outdated_grant_stays_outdated(client: Client, grant: Grant, principal: str) -> None:
    client.permission_changed(principal=principal)
    client.grant(principal)
    client.permission_changed(principal="somebody else")
    for _ in range(2):
        assert_refused(client, grant, "permission_changed")


def test_the_grant_of_another_manager_is_refused(client_type: type[Client], client: Client, grant: Grant) -> None:
    with client_type() as other:
        assert_refused(other, grant, "unknown_grant")
        assert_refused(client, other.grant("alice"), "unknown_grant")


def test_a_grant_from_the_future_is_refused(client: Client, grant: Grant) -> None:
    forged = Grant(grant.principal, grant.labels, grant.instance, client.status().epoch + 1)
    assert_refused(client, forged, "unknown_grant")
