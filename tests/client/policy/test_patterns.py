"""Which patterns a policy may have, and what they match: as Git's ignore files do, where both have a meaning."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell.gitignore import MAX_PATTERN_BYTES
from hintcell.policy.patterns import PatternError, check_pattern, matcher

_TABLE = [
    ("**", ["a.py", "a/b/c.py", ".hidden", "a\nb", os.fsdecode(b"\xff")], []),
    ("src/**", ["src/a.py", "src/b/c.py"], ["src.py", "lib/src/a.py", "Src/a.py"]),
    ("/src", ["src/a.py", "src"], ["lib/src/a.py"]),
    ("src", ["src/a.py", "lib/src/a.py", "lib/src"], ["srcs/a.py"]),
    ("src/", ["src/a.py", "lib/src/a.py"], ["src", "lib/src"]),
    ("src/*.py", ["src/a.py", "src/.py"], ["src/b/c.py", "src/a.pyi", "lib/src/a.py"]),
    ("*.py", ["a.py", "src/b/c.py", "odd.py/readme"], ["a.PY", "a.pyc"]),
    ("src/**/test_*", ["src/test_a.py", "src/b/c/test_d.py", "src/test_data/e.py"], ["test_a.py", "src/atest_b.py"]),
    ("**/secrets/**", ["secrets/a", "b/secrets/c/d"], ["secrets", "my_secrets/a"]),
    ("a?c.py", ["abc.py", "aäc.py", os.fsdecode(b"a\xffc.py"), "a\nc.py"], ["ac.py", "a/c.py", "abbc.py"]),
    ("[a-c_]x.py", ["ax.py", "d/_x.py"], ["dx.py", "-x.py", "/x.py"]),
    ("[!a-c]x.py", ["dx.py", "d/_x.py"], ["ax.py", "/x.py"]),
    ("secret[[:digit:].-]", ["secret1", "a/secret-/b"], ["secret", "secret/a"]),
    (r"\{a,b}.py", ["{a,b}.py"], ["a.py", "b.py"]),
    (r"\[a\].py", ["[a].py"], ["a.py"]),
    (r"\!a.py", ["!a.py"], ["a.py"]),
    (r"\#a.py", ["#a.py"], ["a.py"]),
    ("é.py", ["é.py"], ["e\u0301.py", "É.py"]),
    ("secret.py", ["new\nline/secret.py"], ["secret.py\n", "new\nsecret.py"]),
    ("src/secret.py", [], ["src/secret.py\n", "new\nsrc/secret.py"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), _TABLE, ids=[pattern for pattern, _, _ in _TABLE])
def test_a_pattern_matches_paths(pattern: str, matching: list[str], others: list[str]) -> None:
    check_pattern(pattern)
    matches = matcher([pattern])
    assert [path for path in matching + others if matches(path)] == matching


@pytest.mark.parametrize(("pattern", "matching", "others"), _TABLE, ids=[pattern for pattern, _, _ in _TABLE])
def test_git_agrees(pattern: str, matching: list[str], others: list[str], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True, capture_output=True, timeout=60)
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/exclude").write_text(pattern + "\n")
    # For Git, ? is a byte rather than a character; and a path that starts with / is outside.
    paths = [path for path in matching + others if "ä" not in path and not path.startswith("/")]
    done = subprocess.run(
        ["git", "-c", "core.ignorecase=false", "-C", tmp_path, "check-ignore", "--no-index", "--stdin", "-z"],
        input=b"".join(os.fsencode(path) + b"\0" for path in paths),
        capture_output=True,
        check=False,
        timeout=60,
        env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
    )
    assert done.returncode in (0, 1), done.stderr
    assert [os.fsdecode(path) for path in done.stdout.split(b"\0")[:-1]] == [path for path in matching if path in paths]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("", "is empty"),
        (" \t", "is empty"),
        ("!src/**", "under deny"),
        ("# src", "\\#"),
        ("src ", "white space"),
        ("src\\ ", "white space"),
        ("a\nb", "control character"),
        ("a\0b", "control character"),
        ("a\udcff", "is not UTF-8"),
        ("/", "empty step"),
        ("//", "empty step"),
        ("a//b", "empty step"),
        ("./src", "relative to the folder"),
        ("src/../lib", "relative to the folder"),
        ("src/..", "relative to the folder"),
        ("*.{key,pem}", "write *.ts and *.js"),
        ("a[", "[ with no ]"),
        ("a[b/c]", "[ with no ]"),
        ("a[]", "[ with no ]"),
        ("a[z-a]", "runs backwards"),
        ("a[[:letter:]]", "none of alnum"),
        ("a\\", "before nothing"),
        ("a\\/b", "before nothing"),
        ("a" * (MAX_PATTERN_BYTES + 1), "over 1,024 bytes"),
    ],
)
def test_a_pattern_that_would_surprise_is_refused_and_not_repeated(pattern: str, said: str) -> None:
    with pytest.raises(PatternError) as raised:
        check_pattern(pattern)
    assert said in str(raised.value)
    assert len(pattern) < 4 or pattern not in str(raised.value)


def _as_file_name(name: bytes) -> str:
    return os.fsdecode(name.replace(b"\0", b"0").replace(b"/", b"1"))


_PATHS = st.lists(st.binary(min_size=1, max_size=8).map(_as_file_name), min_size=1, max_size=4).map("/".join)
_PIECES = st.sampled_from(["*", "**", "?", "/", "a", "b", ".", "é", "[a-c]", "[", "]", "!", "\\", "-", "#", " "])


@given(pattern=st.lists(_PIECES, min_size=1, max_size=8).map("".join) | st.text(max_size=12), path=_PATHS)
def test_a_pattern_is_refused_or_matches_without_an_error(pattern: str, path: str) -> None:
    try:
        check_pattern(pattern)
    except PatternError:
        return
    assert matcher([pattern])(path) == matcher([pattern])(path)
    assert matcher([pattern, "**"])(path)


@given(path=_PATHS)
def test_everything_matches_two_stars_and_nothing_matches_no_pattern(path: str) -> None:
    assert matcher(["**"])(path)
    assert not matcher([])(path)


@given(folder=_PATHS, name=st.sampled_from(["secret.py", "x/secret.py"]))
def test_no_folder_hides_a_name(folder: str, name: str) -> None:
    assert matcher(["secret.py"])(f"{folder}/{name}")
