"""A folder made from a table of names and contents."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

Tree = Callable[[Mapping[str, str | bytes]], Path]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files (by relative path) below a new folder `root`, and returns that folder."""
    root = tmp_path / "root"
    root.mkdir()

    def write(files: Mapping[str, str | bytes]) -> Path:
        for name, content in files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write


@pytest.fixture
def site(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tree]:
    """Writes files into a folder on the import path; in the end, nothing of it must have been imported."""
    monkeypatch.setattr(sys, "path", [str(tree({})), *sys.path])
    before = set(sys.modules)

    def write(files: Mapping[str, str | bytes]) -> Path:
        root = tree(files)
        importlib.invalidate_caches()  # a folder's time stamp may be too coarse to show that it has changed
        return root

    yield write
    assert not [name for name in set(sys.modules) - before if name.startswith("hc_")]


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the system refuse every file and folder of that name, also to root."""
    opening = os.open

    def refusing(path: str, flags: int, **where: Any) -> int:
        if Path(path).name == name:
            raise PermissionError(13, "Permission denied", path)
        return opening(path, flags, **where)

    monkeypatch.setattr("hintcell.catalog.files.os.open", refusing)
