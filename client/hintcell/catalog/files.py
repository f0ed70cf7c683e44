"""Source files of a package below a folder: which there are, in a stable order; and reading any file safely.

Hidden folders, `__pycache__`, `node_modules` and virtual environments are no one's source and are passed over.
Links to folders are never followed, so a walk ends and stays below its root. Covers neither ignore files nor
patterns (`walk` does). Nothing here knows a language: a file is source when its name ends in one of the suffixes
asked for.
"""

import io
import os
import stat
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hintcell.catalog.model import Reason

# A file with more bytes than all texts of a request may have is generated data, and parsing it takes hundreds of
# megabytes.
MAX_FILE_BYTES: Final = 2 * 1024 * 1024

# Is in every virtual environment of Python.
ENVIRONMENT_MARK: Final = "pyvenv.cfg"

_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules"})
_TEST_FOLDERS: Final = frozenset({"test", "tests"})
_TEST_PREFIX: Final = "test_"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: `path` opens it, `name` shows it (relative, with `/`; bytes that are not UTF-8 as surrogates)."""

    path: str
    name: str
    follow_link: bool = False


@dataclass(slots=True)
class Found:
    """Files in the order of their names, and the counts of what was left out."""

    files: list[SourceFile] = field(default_factory=list[SourceFile])
    left_out: Counter[Reason] = field(default_factory=Counter[Reason])


class TooLargeError(Exception):
    """The file has more than `MAX_FILE_BYTES`."""


def find_files(
    root: str, suffixes: tuple[str, ...], *, prefix: str = "", include_tests: bool, follow_file_links: bool = False
) -> Found:
    """Every regular file below `root` with one of `suffixes`.

    Args:
        root: the folder to walk, whatever it is called.
        suffixes: how a source file's name ends, such as `.py`.
        prefix: put before every name; ends in `/` unless empty.
        include_tests: whether to take files named `test_*` and those in folders named `test` or `tests`.
        follow_file_links: whether a link to a file stands for that file (some installers link every file).

    Raises:
        OSError: `root` cannot be listed. A folder below it that cannot is counted instead.
    """
    found = Found()
    folders = [(root, prefix, False)]
    while folders:
        folder, name, in_tests = folders.pop()
        is_root = name == prefix
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            if is_root:
                raise
            found.left_out[Reason.UNREADABLE_FOLDERS] += 1
            continue
        if not is_root and any(entry.name == ENVIRONMENT_MARK for entry in entries):
            continue
        for entry in entries:
            is_source = entry.name.endswith(suffixes)
            links = is_link(entry)
            if is_folder(entry):
                if entry.name.startswith(".") or entry.name in _PASSED_OVER:
                    continue
                if links:
                    found.left_out[Reason.LINKS] += 1
                else:
                    folders.append((entry.path, f"{name}{entry.name}/", in_tests or entry.name in _TEST_FOLDERS))
            elif not is_source:
                continue
            elif not include_tests and (in_tests or entry.name.startswith(_TEST_PREFIX)):
                found.left_out[Reason.TEST_FILES] += 1
            elif links and not follow_file_links:
                found.left_out[Reason.LINKS] += 1
            else:
                found.files.append(SourceFile(entry.path, f"{name}{entry.name}", follow_file_links))
    found.files.sort(key=lambda file: file.name)
    return found


def read_file(file: SourceFile) -> bytes:
    """All bytes of `file`.

    Raises:
        OSError: it cannot be read, or is not a regular file (any more): a pipe would never end.
        TooLargeError: it has more than `MAX_FILE_BYTES`.
    """
    with opened(file) as (stream, _):
        return stream.read()


@contextmanager
def opened(file: SourceFile) -> Generator[tuple[io.FileIO, os.stat_result]]:
    """`file` open for reading, and its status.

    Raises:
        OSError: it cannot be read, or is not a regular file (any more): a pipe would never end.
        TooLargeError: it has more than `MAX_FILE_BYTES`.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if file.follow_link else os.O_NOFOLLOW)
    with io.FileIO(os.open(file.path, flags), "r") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"not a regular file: {Path(file.path).name!r}")
        if status.st_size > MAX_FILE_BYTES:
            raise TooLargeError
        yield stream, status


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether `entry` is a folder or a link to one; a link that leads nowhere or in a circle is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def is_link(entry: os.DirEntry[str]) -> bool:
    """Whether `entry` is a link; what the file system does not tell is treated like one."""
    try:
        return entry.is_symlink()
    except OSError:
        return True
