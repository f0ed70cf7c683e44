"""Source files of a package below a folder: which there are, in a stable order; and reading any file safely.

Hidden folders, `__pycache__`, `node_modules` and virtual environments are no one's source and are passed over.
Links to folders are never followed, also where one takes a folder's place while others are read, so a walk ends and
stays below its root. Covers neither ignore files nor patterns (`walk` does). Nothing here knows a language: a file is
source when its name ends in one of the suffixes asked for.
"""

import errno
import io
import os
import stat
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hintcell.catalog.identifiers import printable
from hintcell.catalog.model import Reason, Tell

# A file with more bytes than all texts of a request may have is generated data, and parsing it takes hundreds of
# megabytes.
MAX_FILE_BYTES: Final = 2 * 1024 * 1024

_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW
# As the kernel has it for a path that it is given (limits.h in Linux).
_MAX_PATH_BYTES: Final = 4096

# Is in every virtual environment of Python.
ENVIRONMENT_MARK: Final = "pyvenv.cfg"

_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules"})
_TEST_FOLDERS: Final = frozenset({"test", "tests"})
_TEST_PREFIX: Final = "test_"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file.

    Attributes:
        root: a folder, which may be reached through links.
        inner: where the file is below it (with `/`; bytes that are not UTF-8 as surrogates), through none.
        name: shows it, in the same way.
        follow_link: whether the file itself may be a link.
    """

    root: str
    inner: str
    name: str
    follow_link: bool = False

    @property
    def path(self) -> str:
        """The whole path; to tell files apart, not to open them."""
        return f"{self.root}/{self.inner}"


@dataclass(slots=True)
class Found:
    """Files in the order of their names, and the counts of what was left out; `tell` hears of each."""

    files: list[SourceFile] = field(default_factory=list[SourceFile])
    left_out: Counter[Reason] = field(default_factory=Counter[Reason])
    tell: Tell | None = None

    def leave_out(self, name: str, reason: Reason) -> None:
        """Count something that is called so, and tell of it."""
        self.left_out[reason] += 1
        if self.tell is not None:
            self.tell(printable(name), reason)


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
    folders = [("", False)]
    while folders:
        folder, in_tests = folders.pop()
        try:
            entries = entries_of(root, folder)
        except OSError:
            if not folder:
                raise
            found.left_out[Reason.UNREADABLE_FOLDERS] += 1
            continue
        if folder and any(entry.name == ENVIRONMENT_MARK for entry in entries):
            continue
        for entry in entries:
            inner = folder + entry.name
            if entry.is_folder:
                if entry.name.startswith(".") or entry.name in _PASSED_OVER:
                    continue
                if entry.is_link:
                    found.left_out[Reason.LINKS] += 1
                else:
                    folders.append((f"{inner}/", in_tests or entry.name in _TEST_FOLDERS))
            elif not entry.name.endswith(suffixes):
                continue
            elif not include_tests and (in_tests or entry.name.startswith(_TEST_PREFIX)):
                found.left_out[Reason.TEST_FILES] += 1
            elif entry.is_link and not follow_file_links:
                found.left_out[Reason.LINKS] += 1
            else:
                found.files.append(SourceFile(root, inner, prefix + inner, follow_file_links))
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
    with io.FileIO(_open_below(file.root, file.inner, flags), "r") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise TooLargeError
        yield stream, status


class Entry(NamedTuple):
    """What a folder holds under a name.

    Attributes:
        name: without folders.
        is_folder: whether it is a folder or a link to one; a link that leads nowhere or in a circle is not.
        is_link: whether it is a link; what the file system does not tell is treated like one.
    """

    name: str
    is_folder: bool
    is_link: bool


def entries_of(root: str, inner: str) -> list[Entry]:
    """What is in the folder `inner` (ends in `/`, or is empty) below `root`, which is reached through no link.

    Raises:
        OSError: it cannot be listed, or is not a folder (any more).
    """
    folder = _open_below(root, inner, _FOLDER)
    try:
        with os.scandir(folder) as listing:
            return [Entry(entry.name, _is_folder(entry), _is_link(entry)) for entry in listing]
    finally:
        os.close(folder)


def _open_below(root: str, inner: str, flags: int) -> int:
    """Open what is at `inner` below `root`; no folder in between may be a link."""
    if len(os.fsencode(inner)) >= _MAX_PATH_BYTES:  # Taken step by step, there would be no limit.
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    at = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    *steps, last = inner.removesuffix("/").split("/")
    try:
        for step in steps:
            below = os.open(step, _FOLDER, dir_fd=at)
            os.close(at)
            at = below
        return os.open(last, flags, dir_fd=at) if last else os.dup(at)
    finally:
        os.close(at)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_link(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_symlink()
    except OSError:
        return True
