"""What a principal may not read is in no catalog, in no count, and never opened."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell.catalog import build, build_from_directory
from hintcell.catalog.files import SourceFile, find_files
from hintcell.catalog.model import Reason
from tests.client.catalog.conftest import Tree


def test_what_may_not_be_read_is_neither_found_nor_counted(tree: Tree, tmp_path: Path) -> None:
    names = ["a.py", "test_a.py", "no/b.py", "no/test_b.py", "yes/test_c.py", "yes/d.py"]
    root = tree(dict.fromkeys([*names, "no/deep/yes/e.py"], ""))
    for folder in ("no", "yes"):
        (root / folder / "link.py").symlink_to(root / "a.py")
        (root / folder / "up").symlink_to(root)
    asked: list[str] = []

    def may_read(name: str) -> bool:
        asked.append(name)
        return not name.startswith("no/")

    found = find_files(str(root), (".py",), include_tests=False, may_read=may_read)
    assert [file.name for file in found.files] == ["a.py", "yes/d.py"]
    assert found.left_out == {Reason.TEST_FILES: 2, Reason.LINKS: 2}
    assert {"no/b.py", "no/deep/yes/e.py", "no/up/", "yes/up/", "no/link.py"} <= set(asked)


def test_a_folder_that_may_not_be_read_is_not_counted_when_it_cannot_be(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree({"a/x.py": "", "b/x.py": ""})
    scandir = os.scandir

    def refusing(path: str) -> Iterator[os.DirEntry[str]]:
        if Path(path) != root:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("hintcell.catalog.files.os.scandir", refusing)
    found = find_files(str(root), (".py",), include_tests=True, may_read=lambda name: name != "a/")
    assert found.left_out == {Reason.UNREADABLE_FOLDERS: 1}


def test_a_file_that_may_not_be_read_is_not_opened_and_leaves_no_trace(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read_file = build.read_file

    def reading(file: SourceFile) -> bytes:
        opened.append(file.name)
        return read_file(file)

    monkeypatch.setattr(build, "read_file", reading)
    files = {"a.py": "def f(): pass\n", "b.py": "def f(): pass\n", "broken.py": "def", "café.py": "def g(): pass\n"}
    progress: list[tuple[int, int]] = []
    root = tree(files)
    catalog = build_from_directory(
        root, may_read=lambda name: name in ("a.py", "café.py"), progress=lambda *done: progress.append(done)
    )
    assert opened == ["a.py", "café.py"]
    assert progress[-1] == (2, 2)
    for name in ("b.py", "broken.py"):
        (root / name).unlink()
    assert build_from_directory(root) == catalog
