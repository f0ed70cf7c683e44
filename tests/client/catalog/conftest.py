"""A folder made from a table of names and contents."""

from collections.abc import Callable, Mapping
from pathlib import Path

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
