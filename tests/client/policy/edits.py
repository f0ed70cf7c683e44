"""The ways in which a file gets another content: by an editor, by a deployment, by Kubernetes."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final

Edit = Callable[[Path, str], None]

_numbers: Final = itertools.count()


def in_place(path: Path, text: str) -> None:
    """As an editor that keeps the file; in one step, unless the text before was longer."""
    with path.open("r+") as file:
        file.write(text)
        file.truncate()


def by_renaming(path: Path, text: str) -> None:
    """As most editors, which write a new file beside it."""
    beside = path.with_name(f".{path.name}.{next(_numbers)}")
    beside.write_text(text)
    beside.replace(path)


def by_link_swap(path: Path, text: str) -> None:
    """As Kubernetes: the file is a link into `..data`, which is a link to a folder of its own for each version."""
    version = path.parent / f"..version-{next(_numbers)}"
    version.mkdir()
    (version / path.name).write_text(text)
    beside = path.parent / "..data_tmp"
    beside.symlink_to(version.name)
    beside.replace(path.parent / "..data")
    if not path.is_symlink():
        beside.symlink_to(Path("..data") / path.name)
        beside.replace(path)


def by_folder_link_swap(path: Path, text: str) -> None:
    """As a deployment: `path`'s own folder is a link to a release, and the next release takes its place."""
    release = path.parent.parent / f"release-{next(_numbers)}"
    release.mkdir()
    (release / path.name).write_text(text)
    beside = path.parent.parent / "next"
    beside.symlink_to(release.name)
    beside.replace(path.parent)


def by_moving_folders(path: Path, text: str) -> None:
    """The folder is moved away, and another one put in its place."""
    beside = path.parent.parent / "beside"
    beside.mkdir()
    (beside / path.name).write_text(text)
    path.parent.rename(path.parent.parent / f"old-{next(_numbers)}")
    beside.rename(path.parent)
