"""`hintcell watch` up to the manager, which is a fake: its lines, and its exit statuses."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from click.testing import CliRunner, Result

from hintcell import ControlFailed, HintcellError
from hintcell.cli import managers
from hintcell.cli.group import commands
from hintcell.cli.watch import watched_line
from hintcell.policy import LABEL, Watched
from hintcell_manager.protocol import ChangeReport, ManagerEvent

# The manager ends then, if the test has not come to its end before.
_END_S = 60.0


class _Events:
    """Come to their end when the manager does."""

    def __init__(self, ended: threading.Event, fails: HintcellError | None) -> None:
        self._ended = ended
        self._fails = fails

    def __iter__(self) -> Iterator[ManagerEvent]:
        self._ended.wait(_END_S)
        if self._fails is not None:
            raise self._fails
        return iter([])

    def close(self) -> None:
        self._ended.set()


class _Manager:
    """Writes the policy anew when it is asked for a permission change, and ends when there is nothing more to write."""

    def __init__(
        self, policy: Path, *texts: str, fails: HintcellError | None = None, lost: HintcellError | None = None
    ):
        self._policy = policy
        self._texts = iter(texts)
        self._ended = threading.Event()
        self._fails = fails
        self._lost = lost
        self.asked: list[tuple[str | None, list[str] | None]] = []

    def __call__(self, *_: object) -> Self:
        return self

    def events(self) -> _Events:
        return _Events(self._ended, self._lost)

    def permission_changed(self, *, principal: str | None = None, labels: list[str] | None = None) -> ChangeReport:
        self.asked.append((principal, labels))
        if self._fails is not None:
            raise self._fails
        for text in self._texts:
            self._policy.write_text(text)
            break
        else:
            self._ended.set()
        return ChangeReport(1, (), 0.001)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text("")
    return path


def call(monkeypatch: pytest.MonkeyPatch, manager: _Manager, policy: Path, *arguments: str) -> Result:
    monkeypatch.setattr(managers, "Client", manager)
    return CliRunner().invoke(commands, ["watch", "--policy", str(policy), *arguments])


def test_each_change_is_a_line_with_principals_and_counts_until_the_manager_ends(
    monkeypatch: pytest.MonkeyPatch, policy: Path
) -> None:
    text = "[principals.bob]\nallow = ['a-path']\n[principals.\"x\\n\"]\ndeny = ['a-path']\n"
    manager = _Manager(policy, text, "[", "[")
    result = call(monkeypatch, manager, policy)
    lines = result.stdout.splitlines()
    assert lines[0] == "watching; 0 sessions ended in 1.0 ms"
    assert lines[1] == r"rules changed for bob, x\n; 0 sessions ended in 2.0 ms"
    assert lines[2].startswith(f"nobody may read anything: the policy '{policy}': not valid TOML (at ")
    assert "a-path" not in result.output
    assert manager.asked == [(None, [LABEL]), ("bob", [LABEL]), ("x\n", [LABEL]), (None, [LABEL])]
    assert result.exit_code == 1
    assert result.stderr == "hintcell: the manager has ended, and its sessions with it: watch the next one\n"


def test_in_json_each_is_an_object(monkeypatch: pytest.MonkeyPatch, policy: Path) -> None:
    manager = _Manager(policy, "[principals.bob]\nallow = ['a-path']\n")
    result = call(monkeypatch, manager, policy, "--json")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"kind": "started", "ended": 0, "took_s": 0.001},
        {"kind": "changed", "ended": 0, "took_s": 0.001, "principals": ["bob"]},
    ]


def test_what_the_manager_does_not_do_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, policy: Path) -> None:
    result = call(monkeypatch, _Manager(policy, fails=ControlFailed("a process did not die")), policy)
    assert (result.exit_code, result.output) == (1, "hintcell: a process did not die\n")


def test_a_manager_that_cannot_be_listened_to_ends_the_watching(monkeypatch: pytest.MonkeyPatch, policy: Path) -> None:
    result = call(monkeypatch, _Manager(policy, lost=HintcellError("its events cannot be read")), policy)
    assert (result.exit_code, result.stderr) == (1, "hintcell: its events cannot be read\n")


def test_a_policy_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(commands, ["watch"])
    assert result.exit_code == 2
    assert "--policy" in result.stderr


def test_a_line_says_how_many_sessions_were_ended() -> None:
    assert watched_line(Watched("changed", 1, 0.0034, ("alice",))) == (
        "rules changed for alice; 1 session ended in 3.4 ms"
    )
    assert watched_line(Watched("readable", 2, 0.001)) == "the policy can be read again; 2 sessions ended in 1.0 ms"
