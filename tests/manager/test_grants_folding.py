"""Bounded memory for permission changes refuses no less than a memory without bounds."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from hintcell_manager.grants import MAX_REMEMBERED_CHANGES, Grants, Subject, matches
from hintcell_manager.protocol import Grant, GrantRequest, PermissionChange

_PRINCIPALS = ("alice", "bob", "carol")
_LABELS = ("a", "b", "c")
_LABELS_OF_ONE = (("a",), ("b",), ("c",), ("a", "b"), ("b", "a"), ("b", "c"))
_SNAPSHOTS = ("s1", "s2")

_requests = st.builds(GrantRequest, st.sampled_from(_PRINCIPALS), st.sampled_from([(), *_LABELS_OF_ONE]))
_changes = st.just(PermissionChange(everyone=True)) | st.builds(
    PermissionChange,
    principal=st.none() | st.sampled_from(_PRINCIPALS),
    labels=st.sampled_from([None, *_LABELS_OF_ONE]),
    snapshot_id=st.none() | st.sampled_from(_SNAPSHOTS),
    session_id=st.sampled_from([None, None, None, "session-1"]),
).filter(lambda change: change != PermissionChange())


class Run(NamedTuple):
    """Grants and changes in the order in which they came, with the memory that saw them."""

    grants: Grants
    granted: list[Grant]
    recorded: list[tuple[int, PermissionChange]]

    def is_outdated_without_bounds(self, grant: Grant, snapshot_id: str) -> bool:
        subject = Subject(grant.principal, grant.labels, snapshot_id)
        return any(epoch > grant.epoch and matches(change, subject) for epoch, change in self.recorded)

    @property
    def kinds(self) -> int:
        """How many changes must be remembered to forget nothing."""
        return len({change for _, change in self.recorded if change.session_id is None})


@st.composite
def runs(draw: st.DrawFn, max_changes: st.SearchStrategy[int]) -> Run:
    bound = draw(max_changes)
    run = Run(Grants(max_changes=bound), [], [])
    for step in draw(st.lists(_requests | _changes, max_size=30)):
        if isinstance(step, GrantRequest):
            run.granted.append(run.grants.grant(step))
        else:
            run.recorded.append((run.grants.record(step), step))
        assert len(run.grants._changes) <= bound
    return run


@given(runs(st.integers(0, 6)))
def test_folding_refuses_whatever_a_memory_without_bounds_refuses(run: Run) -> None:
    for grant in run.granted:
        for snapshot_id in _SNAPSHOTS:
            if run.is_outdated_without_bounds(grant, snapshot_id):
                assert run.grants.is_outdated(grant, snapshot_id)


@given(runs(st.integers(0, 6)))
def test_while_nothing_was_folded_exactly_that_is_refused(run: Run) -> None:
    if run.kinds <= run.grants._max_changes:
        for grant in run.granted:
            for snapshot_id in _SNAPSHOTS:
                outdated = run.is_outdated_without_bounds(grant, snapshot_id)
                assert run.grants.is_outdated(grant, snapshot_id) == outdated


@given(runs(st.integers(0, 3)))
def test_a_grant_asked_for_now_counts_however_much_was_folded(run: Run) -> None:
    for principal in _PRINCIPALS:
        grant = run.grants.grant(GrantRequest(principal, _LABELS))
        assert run.grants.is_ours(grant)
        assert not any(run.grants.is_outdated(grant, snapshot_id) for snapshot_id in _SNAPSHOTS)


def test_the_default_memory_folds_beyond_its_bound_and_not_before() -> None:
    grants = Grants()
    grant = grants.grant(GrantRequest("alice"))
    for number in range(MAX_REMEMBERED_CHANGES):
        grants.record(PermissionChange(principal=f"user-{number}"))
        grants.record(PermissionChange(session_id=f"session-{number}"))
    assert not grants.is_outdated(grant, "s")
    grants.record(PermissionChange(principal="one more"))
    assert grants.is_outdated(grant, "s")
    assert len(grants._changes) == MAX_REMEMBERED_CHANGES
