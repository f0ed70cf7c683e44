"""What has not changed is not parsed again, what has is, and nothing else is kept."""

import os
from pathlib import Path

import pytest

from hintcell.catalog import Cache, CatalogError, build, build_from_directory, cache
from hintcell.catalog.kinds import Kind
from hintcell_worker.protocol import Limits
from tests.client.catalog.conftest import Tree, refuse_to_open

_GOOD = "def f():\n    return 1\n"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files as they are parsed, on a clock by which all files are settled."""
    names: list[str] = []
    parts_of = build.parts_of

    def noting(content: bytes, kind: Kind, name: str) -> object:
        names.append(name)
        return parts_of(content, kind, name)

    monkeypatch.setattr(build, "parts_of", noting)
    monkeypatch.setattr(cache, "_SETTLED_NS", -(10**18))
    return names


def test_a_second_build_parses_only_what_has_changed(tree: Tree, parsed: list[str]) -> None:
    root = tree({"a.py": _GOOD, "b.py": _GOOD, "c.md": "# c", "empty.py": ""})
    kept = Cache()
    first = build_from_directory(root, cache=kept)
    assert parsed == ["a.py", "b.py", "c.md", "empty.py"]
    assert build_from_directory(root, cache=kept) == first == build_from_directory(root)
    assert parsed == ["a.py", "b.py", "c.md", "empty.py"] * 2  # the second time without the cache
    parsed.clear()
    tree({"b.py": _GOOD + _GOOD.replace("f", "g")})
    assert build_from_directory(root, cache=kept) == build_from_directory(root)
    assert parsed[0] == "b.py"
    assert parsed[1:] == ["a.py", "b.py", "c.md", "empty.py"]


def test_a_change_that_keeps_size_and_time_is_seen(tree: Tree, parsed: list[str]) -> None:
    root = tree({"a.py": _GOOD})
    kept = Cache()
    build_from_directory(root, cache=kept)
    before = (root / "a.py").stat()
    (root / "new.py").write_text(_GOOD.replace("1", "2"))
    os.utime(root / "new.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    (root / "new.py").replace(root / "a.py")
    [document] = build_from_directory(root, cache=kept).documents
    assert document.text.endswith("return 2")


def test_a_file_that_may_change_within_a_tick_of_the_clock_is_not_kept(
    tree: Tree, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"a.py": _GOOD})
    times = (root / "a.py").stat()
    changed = max(times.st_mtime_ns, times.st_ctime_ns)
    monkeypatch.setattr(cache, "_SETTLED_NS", 2_000_000_000)
    kept = Cache()
    for age_ns, count in ((2_000_000_000, 1), (2_000_000_000, 2), (2_000_000_001, 3), (2_000_000_001, 3)):
        monkeypatch.setattr("hintcell.catalog.cache.time.time_ns", lambda age_ns=age_ns: changed + age_ns)
        build_from_directory(root, cache=kept)
        assert len(parsed) == count


def test_only_what_the_last_build_used_is_kept(tree: Tree, parsed: list[str]) -> None:
    root = tree({"a.py": _GOOD, "b.py": _GOOD})
    kept = Cache()
    build_from_directory(root, cache=kept)
    build_from_directory(root, cache=kept, globs=["a.py"])
    parsed.clear()
    build_from_directory(root, cache=kept)
    assert parsed == ["b.py"]


def test_a_build_that_was_refused_leaves_what_it_parsed(tree: Tree, parsed: list[str]) -> None:
    root = tree({"a.py": _GOOD, "b.py": _GOOD})
    kept = Cache()
    with pytest.raises(CatalogError):
        build_from_directory(root, cache=kept, limits=Limits(1))
    parsed.clear()
    assert len(build_from_directory(root, cache=kept, globs=["a.py"]).documents) == 1
    assert parsed == []


def test_a_cached_file_that_may_not_be_read_any_more_is_not_opened(
    tree: Tree, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"a.py": _GOOD, "b.py": _GOOD})
    kept = Cache()
    build_from_directory(root, cache=kept)
    refuse_to_open(monkeypatch, "b.py")
    catalog = build_from_directory(root, cache=kept, may_read=lambda path: path == "a.py")
    assert [document.id for document in catalog.documents] == ["a.py:1:f"]
    assert not catalog.left_out


def test_not_everything_is_kept(tree: Tree, parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root: Path = tree({"a.py": _GOOD, "b.py": _GOOD, "c.py": _GOOD})
    monkeypatch.setattr(cache, "_MOST_TEXT_BYTES", 2 * len(_GOOD.strip()))
    kept = Cache()
    for expected in (["a.py", "b.py", "c.py"], ["c.py"], ["c.py"]):
        parsed.clear()
        build_from_directory(root, cache=kept)
        assert parsed == expected
