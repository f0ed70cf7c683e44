"""Where sockets of a test can be, and what of a process can be seen from outside."""

import contextlib
import itertools
import os
import select
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

# A command that execs the rest with SIGCHLD ignored, which is inherited. (A shell's trap does not do: dash undoes it.)
IGNORING_SIGCHLD = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])",
)

# Every wait for something that must happen ends by then, also on a machine that does ten other things.
PATIENCE_S = 60


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """A directory of 0700: pytest's own have paths too long for sockets."""
    path = Path(tempfile.mkdtemp(prefix="hc-", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def open_descriptors(pid: int) -> dict[int, str]:
    """The descriptors of a process, and what each is: `socket:[inode]`, `pipe:[inode]` or a path."""
    found = {}
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The one that lists our own directory.
            found[int(link.name)] = str(link.readlink())
    return found


def own_descriptors() -> set[int]:
    """The numbers of the descriptors of this process; two calls tell what was left open between them."""
    return set(open_descriptors(os.getpid()))


def descriptor_limit(pid: int, *, free: int) -> int:
    """The RLIMIT_NOFILE under which a process can open this many more descriptors: all numbers must be below it."""
    held = open_descriptors(pid)
    numbers = itertools.count()
    return next(itertools.islice((number for number in numbers if number not in held), free, None))


def has_exited(pidfd: int, within_s: float = PATIENCE_S) -> bool:
    """Whether the process behind a pidfd exits within this time."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(within_s * 1000))
