"""What git ignores is ignored: the same files are left as git itself lists."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hintcell.catalog import ignoring
from hintcell.catalog.ignoring import work_tree_of
from hintcell.catalog.model import Reason
from hintcell.catalog.walk import walk
from tests.client.catalog.conftest import Tree

_GIT = ("git", "-c", "core.excludesFile=/dev/null")


def _left(root: Path) -> set[str]:
    return {file.name for file in walk(str(root), include_tests=True, globs=None, may_read=None).files}


def _left_by_git(root: Path) -> set[str]:
    """Files that git neither ignores nor knows by now."""
    listed = subprocess.run(
        [*_GIT, "ls-files", "--others", "--exclude-standard", "-z", "."],
        cwd=root,
        check=True,
        capture_output=True,
        timeout=60,
    )
    return {os.fsdecode(name) for name in listed.stdout.split(b"\0") if name and not name.endswith(b".gitignore")}


def _init(root: Path) -> None:
    subprocess.run([*_GIT, "init", "--quiet", "."], cwd=root, check=True, timeout=60)


# Patterns and names that have to do with each other. Each file is of a known kind.
_PATTERNS = (
    "a a/ /a b/ *.py !x.py logs !logs logs/ /logs/ !logs/ a/b a/* !a/b **/b a/** **/logs/x.py a/**/c.py * !*/ */ "
    "[ab] [!a]b ? /* !/a a*.py *b ** !**/a/ /logs/**/x.py b/**/ /**/a a/*/b !a/ */b/ \\!x #c ! / // [a"
).split()
_patterns = st.lists(st.sampled_from(_PATTERNS), max_size=4).map(lambda lines: "\n".join([*lines, ""]))
_folders = st.sampled_from(["", "a/", "b/", "logs/", "a/b/", "a/logs/", "b/a/", "a/b/a/"])
_files = st.builds(lambda folder, name: folder + name, _folders, st.sampled_from(["x.py", "c.py", "a.py", "ab.py"]))


@given(
    files=st.sets(_files, min_size=1, max_size=8),
    ignores=st.dictionaries(_folders, _patterns, max_size=4),
    exclude=_patterns,
    inner=st.sampled_from(["", "a", "a/b"]),
)
@example(files={"a/x.py", "a/c.py"}, ignores={"": "*.py\n", "a/": "!x.py\n"}, exclude="", inner="a")
@example(files={"a/b/x.py", "a/c.py"}, ignores={"": "a/**/\n"}, exclude="", inner="")
@example(files={"a/b/x.py", "a/c.py"}, ignores={"": "!c.py"}, exclude="*.py\n", inner="a/b")
@example(files={"a/x.py", "a/c.py"}, ignores={"": "a/**\n!a/x.py\n"}, exclude="", inner="")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_left_is_what_git_leaves(
    tmp_path_factory: pytest.TempPathFactory, files: set[str], ignores: dict[str, str], exclude: str, inner: str
) -> None:
    root = tmp_path_factory.mktemp("tree")
    _init(root)
    for name, content in [
        *((name, "") for name in files),
        *((f"{folder}.gitignore", patterns) for folder, patterns in ignores.items()),
        (".git/info/exclude", exclude),
    ]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    assert _left(root) == _left_by_git(root)
    # A folder inside of the work tree keeps the rules from above it, unless it is ignored itself: it was asked for.
    place = root / inner
    ignored = any(
        subprocess.run([*_GIT, "check-ignore", "--quiet", f"{part}/"], cwd=root, check=False, timeout=60).returncode
        == 0
        for part in (["a", "a/b"][: len(place.relative_to(root).parts)])
    )
    if place.is_dir() and not ignored:
        assert _left(place) == _left_by_git(place)


def test_an_ignored_folder_counts_once_and_is_not_entered(tree: Tree) -> None:
    root = tree({".gitignore": "out/\n*.log.py\r\n", "out/a.py": "", "out/b/c.py": "", "d.log.py": "", "e.py": ""})
    found = walk(str(root), include_tests=True, globs=None, may_read=None)
    assert [file.name for file in found.files] == ["e.py"]
    assert found.left_out == {Reason.IGNORED: 2, Reason.OTHER_FILES: 1}


def test_without_git_the_ignore_files_hold_from_the_root_on(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.py\n")
    root = tree({"a.py": "", "b/.gitignore": "a.py\n", "b/a.py": "", "b/c.py": ""})
    assert _left(root) == {"a.py", "b/c.py"}


def test_an_ignore_file_that_is_a_link_a_pipe_or_no_text_is_passed_over(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text("*.py\n")
    root = tree({"a/x.py": "", "b/x.py": "", "c/x.py": "", "c/.gitignore": b"\xff\xfe\n[\n\0\nx.py\n", "d/x.py": ""})
    (root / "a/.gitignore").symlink_to(tmp_path / "rules")
    os.mkfifo(root / "b/.gitignore")
    (root / "d/.gitignore").mkdir()
    assert _left(root) == {"a/x.py", "b/x.py", "d/x.py"}


def test_of_too_many_patterns_the_last_hold(tree: Tree) -> None:
    root = tree({".gitignore": "a.py\nb.py\n" + "# one\n" * (ignoring.MAX_LINES - 2), "a.py": "", "b.py": ""})
    assert _left(root) == {"a.py"}


def test_names_that_are_not_utf8_can_be_ignored(tree: Tree) -> None:
    root = tree({".gitignore": b"caf\xe9/\n\xff.py\n", os.fsdecode(b"caf\xe9/a.py"): "", "b.py": ""})
    (root / os.fsdecode(b"\xff.py")).touch()
    assert _left(root) == {"b.py"}


def test_a_linked_work_tree_has_the_excludes_of_its_repository(tree: Tree, tmp_path: Path) -> None:
    root = tree({"main/a.py": ""})
    _init(root / "main")
    commit = ["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "--quiet", "--allow-empty", "-m", "m"]
    subprocess.run([*_GIT, *commit], cwd=root / "main", check=True, timeout=60)
    subprocess.run([*_GIT, "worktree", "add", "-q", "../linked"], cwd=root / "main", check=True, timeout=60)
    (root / "main/.git/info/exclude").write_text("secret*\n")
    tree({"linked/secret.py": "", "linked/b.py": ""})
    assert _left(root / "linked") == {"b.py"} == _left_by_git(root / "linked")


@pytest.mark.parametrize("git", [b"gitdir: /nowhere\n", b"", b"\xff\0", b"gitdir: .\n"])
def test_a_git_file_that_leads_nowhere_excludes_nothing(tree: Tree, git: bytes) -> None:
    root = tree({".git": git, "a/b.py": "", ".gitignore": "c.py", "a/c.py": ""})
    assert _left(root / "a") == {"b.py"}
    assert work_tree_of(str(root / "a")).prefix == "a/"


def test_a_folder_in_no_work_tree_has_no_rules_from_above(monkeypatch: pytest.MonkeyPatch, tree: Tree) -> None:
    monkeypatch.setattr(ignoring, "_GIT", "no such name")
    assert work_tree_of(str(tree({}))) == ignoring.WorkTree("", ignoring.Ignoring())
