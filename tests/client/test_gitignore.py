"""Patterns match as for Git, however many stars they have, or are refused."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hintcell.gitignore import MAX_PATTERN_BYTES, GitPatternError, git_pattern


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "--quiet", root], check=True, timeout=60)
    (root / ".git/info").mkdir(exist_ok=True)
    return root


def _matched_by_git(repository: Path, pattern: str, names: set[str]) -> set[str]:
    (repository / ".git/info/exclude").write_text(pattern + "\n")
    done = subprocess.run(
        ["git", "-c", "core.ignorecase=false", "check-ignore", "--no-index", "--stdin", "-z"],
        cwd=repository,
        input=b"".join(os.fsencode(name) + b"\0" for name in names),
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
    )
    assert done.returncode in (0, 1), done.stderr
    return {os.fsdecode(name) for name in done.stdout.split(b"\0")[:-1]}


_SETS = "[ab] [!a] [^a-b] []a] [a-] [--a] [a-c-e] [\\]a] [[] [&&~~] [[:alpha:]-b] [![:punct:]] [!]".split()
_pieces = st.lists(
    st.sampled_from(["*", "*", "?", "a", "b", "\\a", "\\*", ".", "-", " ", "\\ ", "!", *_SETS]), min_size=1
)
# Git 2.39 takes `a**/` for either of two things.
_steps = st.just("**") | _pieces.map(lambda pieces: re.sub(r"\*+", "*", "".join(pieces)))
_patterns = st.builds(
    lambda start, steps, end: start + "/".join(steps) + end,
    st.sampled_from(["", "/"]),
    st.lists(_steps, min_size=1, max_size=5),
    st.sampled_from(["", "/"]),
).filter(lambda pattern: not pattern.startswith("!"))
_steps_of_names = st.text("aaab.-]& !*é\n", min_size=1, max_size=5).filter(lambda step: step not in (".", ".."))
_names = st.lists(_steps_of_names, min_size=1, max_size=5).map("/".join)


@given(pattern=_patterns, names=st.sets(_names, min_size=5, max_size=40))
@example(pattern="**/a/**/b/*", names={"a/b/x", "b/a/a/c/b/x/y", "a/b", "b/a"})
@example(pattern="*a*ab*b/", names={"aabb/x", "aab/x", "a/bb/x", "xaxabxb/y"})
@example(pattern="a\\\\ ", names={"a\\", "a\\ "})
@example(pattern="**/**/a/**/**/b", names={"a/b", "x/a/x/y/b", "x/b"})
@example(pattern="***/a", names={"a", "b/a", "b/c/a"})
@settings(max_examples=60, deadline=None)
def test_a_pattern_matches_what_git_matches(repository: Path, pattern: str, names: set[str]) -> None:
    try:
        regex = git_pattern(pattern, below=True).regex
    except GitPatternError:
        # Git takes a slash or a backward range in a set.
        assert "[" in pattern or not _matched_by_git(repository, pattern, names)
        return
    # For Git, ? and sets are about bytes.
    names = {name for name in names if "é" not in name or not re.search(r"[?[]", pattern)}
    assert {name for name in names if regex.match(name)} == _matched_by_git(repository, pattern, names)


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        ("*a" * 100 + "*b", "a" * 254),
        ("*[ab]?" * 60 + "*b", "a" * 254),
        ("**/a/" * 200 + "b", "a/" * 2000),
        ("a/**/*/" * 100 + "b", "a/" * 2000),
        ("**/*a*a/*a*a/" * 40 + "b", "aaa/" * 1000),
    ],
)
def test_no_number_of_stars_takes_long(pattern: str, start: str, below: bool) -> None:
    # With groups that are not atomic, none of these would end.
    regex = git_pattern(pattern, below=below).regex
    assert not regex.match(start + "a")
    assert regex.match(start + "b")


def test_without_what_is_below_the_name_itself_counts() -> None:
    for pattern, matching, others in (
        ("a", ["a", "a/", "b/a", "b/a/"], ["a/b", "b/a/c/", "a\n"]),
        ("[\n]", ["\n"], ["a", ""]),
        ("a/", ["a/", "b/a/"], ["a", "b/a", "a/b"]),
        ("/a", ["a", "a/"], ["b/a"]),
        ("a/**", ["a/b", "a/b/", "a/b/c"], ["a", "a/"]),
        ("a/**/", ["a/b/", "a/b/c/"], ["a/", "a/b", "a/b/c"]),
        ("**", ["a", "a/", "a/b"], []),
        ("a/*", ["a/b", "a/b/"], ["a/", "a/b/c"]),
    ):
        regex = git_pattern(pattern, below=False).regex
        assert [name for name in matching + others if regex.match(name)] == matching


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "is empty"),
        (" \t", "is empty"),
        ("!", "is empty"),
        ("#a", "a comment"),
        ("/", "an empty step"),
        ("a//b", "an empty step"),
        ("./a", "relative to the folder"),
        ("a/..", "relative to the folder"),
        ("a[", "a [ with no ]"),
        ("a[]", "a [ with no ]"),
        ("a[!]", "a [ with no ]"),
        ("a[b/c]", "a [ with no ]"),
        ("a[[:alpha:]", "a [ with no ]"),
        ("a\\", "a \\ before nothing"),
        ("a\\/b", "a \\ before nothing"),
        ("[z-a]", "runs backwards"),
        ("[[:letter:]]", "none of alnum, alpha"),
        ("a" * (MAX_PATTERN_BYTES + 1), "over 1,024 bytes"),
    ],
)
def test_what_can_match_nothing_or_is_a_mistake_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(GitPatternError) as refused:
        git_pattern(pattern, below=True)
    assert said in str(refused.value)


@given(st.text("[]!^-\\:*?/&|~#alph \ud800é\n", max_size=20) | st.text(max_size=20))
@example("[[:alpha:]]")
@example("[[a]&&[b--c||~~]")
def test_any_line_is_a_pattern_or_refused_without_a_warning(line: str) -> None:
    try:
        git_pattern(line, below=True)
    except GitPatternError:
        pass
