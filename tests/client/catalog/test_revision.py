"""Snapshot ids of git work trees: the commit, whether what was read differs from it, and the digest."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from hintcell.catalog import build_from_directory, revision
from tests.client.catalog.conftest import Tree

_GOOD = "def f(): pass\n"
_USER = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "core.excludesFile=/dev/null")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *_USER, *arguments], cwd=root, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


@pytest.fixture
def work_tree(tree: Tree) -> Path:
    """A work tree with a commit of `a.py` and `sub/b.py`."""
    root = tree({"a.py": _GOOD, "sub/b.py": _GOOD, "x.bin": ""})
    _git(root, "init", "--quiet")
    _git(root, "add", ".")
    _git(root, "commit", "--quiet", "-m", "m")
    return root


def _origin(root: Path, **options: object) -> str:
    snapshot_id = build_from_directory(root, **options).snapshot_id  # type: ignore[arg-type]
    assert len(snapshot_id.encode()) <= 128
    origin, _, digest = snapshot_id.rpartition(":")
    assert re.fullmatch("[0-9a-f]{32}", digest)
    return origin


def test_a_clean_work_tree_is_named_by_its_commit_and_the_digest(work_tree: Path) -> None:
    commit = _git(work_tree, "rev-parse", "HEAD")
    assert _origin(work_tree) == f"git:{commit}"
    assert _origin(work_tree / "sub") == f"git:{commit}"
    assert _origin(work_tree, globs=["a.py"]) == f"git:{commit}"
    ids = {build_from_directory(work_tree, globs=globs).snapshot_id for globs in ((), ("a.py",), ("b.py",))}
    assert len(ids) == 3


def test_what_was_read_and_differs_from_the_commit_makes_it_dirty(work_tree: Path) -> None:
    clean = _origin(work_tree)
    (work_tree / "untracked.bin").touch()
    (work_tree / "new").mkdir()
    (work_tree / "new/also.bin").touch()
    assert _origin(work_tree) == clean
    (work_tree / "new/c.py").write_text(_GOOD)
    assert _origin(work_tree) == f"{clean}+dirty"
    assert _origin(work_tree / "sub") == clean
    (work_tree / "new/c.py").unlink()
    (work_tree / "sub/c ü.py").write_text(_GOOD)
    assert _origin(work_tree / "sub") == f"{clean}+dirty"
    (work_tree / "sub/c ü.py").unlink()
    (work_tree / "a.py").unlink()
    assert _origin(work_tree) == f"{clean}+dirty"
    assert _origin(work_tree / "sub") == clean
    (work_tree / "a.py").write_text(_GOOD)
    (work_tree / "sub/b.py").write_text(_GOOD + "#")
    assert _origin(work_tree / "sub") == f"{clean}+dirty"


def test_a_file_that_only_this_user_ignores_makes_it_dirty(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(f"[core]\n\texcludesFile = {tmp_path}/mine\n")
    (tmp_path / "mine").write_text("*\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config").rename(tmp_path / ".gitconfig")
    (work_tree / "c.py").write_text(_GOOD)
    assert _origin(work_tree).endswith("+dirty")


def test_files_that_git_ignores_make_it_dirty_where_they_are_read(work_tree: Path) -> None:
    (work_tree / ".gitignore").write_text("out\n")
    _git(work_tree, "add", ".gitignore")
    _git(work_tree, "commit", "--quiet", "-m", "ignore")
    (work_tree / "out/inner").mkdir(parents=True)
    (work_tree / "out/inner/c.py").write_text(_GOOD)
    assert not _origin(work_tree).endswith("+dirty")
    assert _origin(work_tree / "out").endswith("+dirty")
    assert _origin(work_tree / "out/inner").endswith("+dirty")


def test_under_a_policy_a_commit_of_hidden_files_leaves_no_trace(work_tree: Path) -> None:
    def may_read(path: str) -> bool:
        return path == "a.py"

    before = build_from_directory(work_tree, may_read=may_read).snapshot_id
    assert before.startswith("files:")
    (work_tree / "sub/b.py").write_text("x = 1")
    _git(work_tree, "commit", "--quiet", "-am", "hidden")
    assert build_from_directory(work_tree, may_read=may_read).snapshot_id == before


def test_outside_of_git_without_a_commit_or_without_git_there_is_the_digest_alone(
    tree: Tree, work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "a.py").write_text(_GOOD)
    assert _origin(empty) == "files"
    _git(empty, "init", "--quiet")
    assert _origin(empty) == "files"
    assert _origin(work_tree) != "files"
    monkeypatch.setenv("PATH", str(empty))
    assert _origin(work_tree) == "files"


def _fake_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize(
    "script", ["exec sleep 60", "exit 3", "echo nonsense", f"printf '\\n{'0' * 40}\\n'; exit 3", "printf '\\377\\n\\n'"]
)
def test_a_git_that_hangs_or_fails_is_done_without(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr(revision, "_GIT_S", 0.5)
    _fake_git(tmp_path / "bin", script, monkeypatch)
    assert _origin(work_tree) == "files"


def test_git_is_asked_for_this_folder_whatever_the_environment_says(
    work_tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _origin(work_tree)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert _origin(work_tree) == expected


def test_nothing_that_a_work_tree_configures_is_started_and_nothing_is_written(work_tree: Path, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    monitor = tmp_path / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {witness}\n")
    monitor.chmod(0o755)
    _git(work_tree, "config", "core.fsmonitor", str(monitor))
    os.utime(work_tree / "a.py", (1e9, 1e9))  # git would like to note that it has looked at the file
    index = (work_tree / ".git/index").read_bytes()
    assert _origin(work_tree).startswith("git:")
    assert not witness.exists()
    assert (work_tree / ".git/index").read_bytes() == index
