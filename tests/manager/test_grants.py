"""Which grants a permission change outdates, and which requests have no meaning."""

import pytest

from hintcell_manager.grants import Grants, InvalidRequestError, Subject, check_change, matches
from hintcell_manager.protocol import MAX_LABELS, MAX_NAME_BYTES, Grant, GrantRequest, PermissionChange

_SUBJECT = Subject("alice", ("repo/a", "repo/b"), "snapshot-1", "session-1")

_HOLDS = {
    "principal": PermissionChange(principal="alice"),
    "one label of two": PermissionChange(labels=("repo/b",)),
    "one label in common": PermissionChange(labels=("repo/x", "repo/a", "repo/y")),
    "snapshot": PermissionChange(snapshot_id="snapshot-1"),
    "session": PermissionChange(session_id="session-1"),
    "everyone": PermissionChange(everyone=True),
    "all of them": PermissionChange("alice", ("repo/a",), "snapshot-1", "session-1"),
}
_DOES_NOT_HOLD = {
    "other principal": PermissionChange(principal="bob"),
    "principal in another case": PermissionChange(principal="Alice"),
    "no label in common": PermissionChange(labels=("repo/x", "repo")),
    "other snapshot": PermissionChange(snapshot_id="snapshot-2"),
    "other session": PermissionChange(session_id="session-2"),
    "all but the principal": PermissionChange("bob", ("repo/a",), "snapshot-1", "session-1"),
    "all but the labels": PermissionChange("alice", ("repo/x",), "snapshot-1", "session-1"),
    "all but the snapshot": PermissionChange("alice", ("repo/a",), "snapshot-2", "session-1"),
    "all but the session": PermissionChange("alice", ("repo/a",), "snapshot-1", "session-2"),
}


@pytest.mark.parametrize("change", _HOLDS.values(), ids=_HOLDS.keys())
def test_a_change_matches_when_all_that_it_gives_holds(change: PermissionChange) -> None:
    check_change(change)
    assert matches(change, _SUBJECT)


@pytest.mark.parametrize("change", _DOES_NOT_HOLD.values(), ids=_DOES_NOT_HOLD.keys())
def test_a_change_does_not_match_when_one_thing_that_it_gives_does_not_hold(change: PermissionChange) -> None:
    check_change(change)
    assert not matches(change, _SUBJECT)


def test_labels_match_nobody_who_has_none_and_a_session_matches_no_grant() -> None:
    nobody = Subject("alice", (), "snapshot-1")
    assert not matches(PermissionChange(labels=("repo/a",)), nobody)
    assert not matches(PermissionChange(session_id="session-1"), nobody)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (PermissionChange(), "must name principal, labels, snapshot_id or session_id"),
        (PermissionChange(labels=()), "labels is empty"),
        (PermissionChange(principal="alice", labels=()), "labels is empty"),
        (PermissionChange(principal="alice", everyone=True), "everyone=True excludes"),
        (PermissionChange(labels=(), everyone=True), "everyone=True excludes"),
        (PermissionChange(snapshot_id="s", everyone=True), "everyone=True excludes"),
        (PermissionChange(session_id="s", everyone=True), "everyone=True excludes"),
    ],
)
def test_a_change_that_names_nobody_or_contradicts_itself_is_refused(change: PermissionChange, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        check_change(change)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GrantRequest(""), "principal is blank"),
        (GrantRequest(" \t\n\u2003"), "principal is blank"),
        (GrantRequest("a" * (MAX_NAME_BYTES + 1)), f"over {MAX_NAME_BYTES} bytes"),
        (GrantRequest("é" * (MAX_NAME_BYTES // 2) + "a"), f"over {MAX_NAME_BYTES} bytes"),
        (GrantRequest("alice", ("fine", "a" * (MAX_NAME_BYTES + 1))), f"over {MAX_NAME_BYTES} bytes"),
        (GrantRequest("alice", ("a",) * (MAX_LABELS + 1)), f"there are {MAX_LABELS + 1} labels: at most {MAX_LABELS}"),
    ],
)
def test_a_grant_request_without_a_principal_or_over_a_limit_is_refused(request_: GrantRequest, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Grants().grant(request_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (PermissionChange("a" * (MAX_NAME_BYTES + 1)), f"over {MAX_NAME_BYTES} bytes"),
        (PermissionChange(snapshot_id="a" * (MAX_NAME_BYTES + 1)), f"over {MAX_NAME_BYTES} bytes"),
        (PermissionChange(session_id="a" * (MAX_NAME_BYTES + 1)), f"over {MAX_NAME_BYTES} bytes"),
        (PermissionChange(labels=("fine", "é" * MAX_NAME_BYTES)), f"over {MAX_NAME_BYTES} bytes"),
        (PermissionChange(labels=("a",) * (MAX_LABELS + 1)), f"there are {MAX_LABELS + 1} labels"),
    ],
)
def test_a_change_that_would_take_more_memory_than_a_grant_is_refused(change: PermissionChange, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        check_change(change)


def test_a_grant_request_at_its_limits_is_granted_as_asked() -> None:
    grants = Grants()
    labels = tuple(f"{number:0{MAX_NAME_BYTES}}" for number in range(MAX_LABELS))
    name = "é" * (MAX_NAME_BYTES // 2)
    assert grants.grant(GrantRequest(name, labels)) == Grant(name, labels, grants.instance, 0)


def test_each_change_starts_an_epoch_and_a_grant_records_the_one_it_was_asked_in() -> None:
    grants = Grants()
    epochs = [grants.grant(GrantRequest("alice")).epoch]
    for change in (PermissionChange("bob"), PermissionChange("bob"), PermissionChange(session_id="s")):
        assert grants.record(change) == grants.epoch
        epochs.append(grants.grant(GrantRequest("alice")).epoch)
    assert epochs == [0, 1, 2, 3]


def test_a_grant_older_than_a_matching_change_is_outdated_and_a_newer_one_is_not() -> None:
    grants = Grants()
    older = grants.grant(GrantRequest("alice", ("repo/a",)))
    other = grants.grant(GrantRequest("bob", ("repo/a",)))
    assert not grants.is_outdated(older, "s")
    grants.record(PermissionChange(principal="alice", labels=("repo/a", "repo/b")))
    newer = grants.grant(GrantRequest("alice", ("repo/a",)))
    assert grants.is_outdated(older, "s")
    assert not grants.is_outdated(newer, "s")
    assert not grants.is_outdated(other, "s")


def test_changes_that_do_not_match_hide_no_older_one_that_does() -> None:
    grants = Grants()
    grant = grants.grant(GrantRequest("alice"))
    grants.record(PermissionChange("alice"))
    for principal in ("bob", "carol", "dave"):
        grants.record(PermissionChange(principal))
    assert grants.is_outdated(grant, "s")


def test_the_same_change_again_outdates_what_was_granted_between() -> None:
    grants = Grants()
    grants.record(PermissionChange("alice"))
    grants.record(PermissionChange("bob"))
    between = grants.grant(GrantRequest("alice"))
    grants.record(PermissionChange("alice"))
    assert grants.is_outdated(between, "s")
    assert not grants.is_outdated(grants.grant(GrantRequest("alice")), "s")


def test_a_change_of_a_snapshot_outdates_a_grant_for_that_snapshot_alone() -> None:
    grants = Grants()
    grant = grants.grant(GrantRequest("alice"))
    grants.record(PermissionChange(snapshot_id="s1"))
    assert grants.is_outdated(grant, "s1")
    assert not grants.is_outdated(grant, "s2")


def test_a_change_of_everyone_outdates_every_grant_before_it() -> None:
    grants = Grants()
    before = [grants.grant(GrantRequest(name)) for name in ("alice", "bob")]
    grants.record(PermissionChange(everyone=True))
    assert all(grants.is_outdated(grant, "s") for grant in before)
    assert not grants.is_outdated(grants.grant(GrantRequest("alice")), "s")


def test_a_change_of_one_session_outdates_no_grant() -> None:
    grants = Grants()
    grant = grants.grant(GrantRequest("alice"))
    grants.record(PermissionChange(session_id="session-1"))
    grants.record(PermissionChange(principal="alice", session_id="session-1"))
    assert not grants.is_outdated(grant, "s")


def test_only_a_grant_that_this_manager_has_issued_is_its_own() -> None:
    grants, another = Grants(), Grants()
    grants.record(PermissionChange("alice"))
    grant = grants.grant(GrantRequest("alice"))
    assert grants.is_ours(grant)
    assert not another.is_ours(grant)
    assert not grants.is_ours(Grant("alice", (), grants.instance, grants.epoch + 1))
    assert not grants.is_ours(Grant("alice", (), grants.instance, -1))
    assert not grants.is_ours(Grant("alice", (), "", 0))
