"""What each change of a policy ends, and in which order, with a source and a manager that are scripts."""

import threading
from collections.abc import Iterator

import pytest

from hintcell import ControlFailed, DeadlineExceeded, HintcellError, ManagerUnavailable
from hintcell.policy import LABEL, Policy, PolicyError, Watched, watch
from hintcell.policy.decode import decode_policy
from hintcell_manager.protocol import ChangeReport, EndedSession

EVERYONE = (None, LABEL)


def policy(**allowed: str) -> Policy:
    return decode_policy("".join(f"[principals.{name}]\nallow = ['{one}']\n" for name, one in allowed.items()).encode())


class _Script:
    """A source that reads one thing after the other, and a client; what happens is in `done`, in order."""

    def __init__(self, *reads: Policy | PolicyError, fails: dict[str | None, HintcellError] | None = None) -> None:
        self._reads = reads
        self._next = iter(reads)
        self._fails = fails or {}
        self.done: list[object] = []
        self.told: list[Watched] = []
        self.closed = False

    def read(self) -> Policy:
        self.done.append("read")
        read = next(self._next)
        if isinstance(read, PolicyError):
            raise read
        return read

    def changes(self, stop: threading.Event) -> Iterator[None]:
        try:
            for _ in self._reads[1:]:
                yield
        finally:
            self.closed = True

    def permission_changed(self, *, principal: str | None = None, labels: list[str] | None = None) -> ChangeReport:
        assert labels is not None
        self.done.append((principal, *labels))
        if principal in self._fails:
            raise self._fails[principal]
        return ChangeReport(1, (EndedSession("5e55", 7, 0.001),), 0.002)

    def run(self) -> list[object]:
        watch(self, self, threading.Event(), tell=self.told.append)
        return self.done


def test_at_the_start_everyone_is_ended_after_the_policy_was_read() -> None:
    script = _Script(policy(alice="a"))
    assert script.run() == ["read", EVERYONE]
    assert script.told == [Watched("started", 1, 0.002)]


def test_exactly_those_are_ended_whose_rules_changed_after_the_policy_was_read() -> None:
    script = _Script(policy(alice="a", bob="b", carol="c"), policy(alice="a", bob="x", dan="d"))
    assert script.run()[2:] == ["read", ("bob", LABEL), ("carol", LABEL), ("dan", LABEL)]
    assert script.told[1:] == [Watched("changed", 3, 0.006, ("bob", "carol", "dan"))]


def test_each_change_is_held_against_the_one_before() -> None:
    script = _Script(policy(alice="a"), policy(alice="b"), policy(alice="b", bob="b"), policy(alice="a", bob="b"))
    script.run()
    assert [told.principals for told in script.told[1:]] == [("alice",), ("bob",), ("alice",)]


def test_the_same_rules_written_differently_end_nobody() -> None:
    script = _Script(policy(alice="a"), decode_policy(b"# new\n[groups.g]\nmembers = ['alice']\nallow = ['a', 'a']\n"))
    assert script.run() == ["read", EVERYONE, "read"]
    assert len(script.told) == 1


def test_a_policy_that_cannot_be_read_ends_everyone_and_so_does_its_return() -> None:
    script = _Script(policy(alice="a"), PolicyError("broken"), policy(alice="a"), policy(alice="b"))
    assert script.run()[2:] == ["read", EVERYONE, "read", EVERYONE, "read", ("alice", LABEL)]
    assert script.told[1:3] == [Watched("unreadable", 1, 0.002, message="broken"), Watched("readable", 1, 0.002)]


def test_the_same_failure_again_is_not_told_again() -> None:
    script = _Script(policy(), PolicyError("broken"), PolicyError("broken"), PolicyError("gone"))
    script.run()
    assert [told.message for told in script.told] == ["", "broken", "gone"]


def test_a_policy_that_cannot_be_read_at_the_start_is_told_and_watched() -> None:
    script = _Script(PolicyError("gone"), policy(alice="a"))
    assert script.run() == ["read", EVERYONE, "read", EVERYONE]
    assert [told.kind for told in script.told] == ["unreadable", "readable"]


@pytest.mark.parametrize("error", [ControlFailed("a process did not die"), DeadlineExceeded("no answer")])
def test_one_principal_that_cannot_be_ended_keeps_no_other_from_it(error: HintcellError) -> None:
    script = _Script(policy(), policy(alice="a", bob="b", carol="c"), policy(), fails={"alice": error})
    with pytest.raises(type(error), match=str(error)):
        script.run()
    assert script.done[3:] == [("alice", LABEL), ("bob", LABEL), ("carol", LABEL)]
    assert script.closed


def test_a_manager_that_is_gone_ends_the_watching() -> None:
    script = _Script(policy(), fails={None: ManagerUnavailable("the manager is gone")})
    with pytest.raises(ManagerUnavailable):
        script.run()
    assert script.told == []
