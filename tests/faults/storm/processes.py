"""What /proc tells about processes, and the few calls that Python's library lacks. Linux only.

A process is meant by pid and start tick together: this machine's pids may come round again within one storm.
"""

import contextlib
import ctypes
import re
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.storm.messages import Process

# In the environment of every process of a round, handed down from parent to child.
MARK: Final = "HINTCELL_STORM"

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_SIGKILL: Final = 9
_DEAD: Final = {"Z", "X"}
_WHICH: Final = re.compile(r":\[\d+\]$|^/.*(?=\.log$)")


class Look(msgspec.Struct, frozen=True):
    """One look at a process. `state` is a letter as in proc_pid_stat(5): Z is dead and not reaped, T is stopped."""

    process: Process
    state: str
    parent: int

    @property
    def is_alive(self) -> bool:
        """Whether it can still do anything."""
        return self.state not in _DEAD


def look(pid: int) -> Look | None:
    """The process that has this pid now, if any."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return Look(Process(pid, int(fields[19])), fields[0].decode(), int(fields[1]))


def is_alive(process: Process) -> bool:
    """Whether this very process exists and is no zombie."""
    seen = look(process.pid)
    return seen is not None and seen.process == process and seen.is_alive


def everything() -> list[Look]:
    """Every process of this pid namespace."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [seen for pid in pids if (seen := look(pid)) is not None]


def children(pid: int) -> list[Look]:
    """The children of a process, dead ones that are not reaped among them."""
    return [seen for seen in everything() if seen.parent == pid]


def marked(mark: str) -> list[Look]:
    """Every living process whose environment has MARK with this value."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for seen in everything():
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{seen.process.pid}/environ").read_bytes().split(b"\0") and seen.is_alive:
                found.append(seen)
    return found


def command_line(pid: int) -> str:
    """The arguments of a process, or nothing if it is dead."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_template(pid: int) -> bool:
    """Whether this is a template or one of its workers, which have its command line."""
    return "hintcell_worker.template" in command_line(pid)


def descriptors(pid: int) -> Counter[str]:
    """What a process has open, by kind: `socket`, `pipe`, `anon_inode:[pidfd]`, paths."""
    kinds: Counter[str] = Counter()
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                kinds[_WHICH.sub("", str(entry.readlink()))] += 1
    return kinds


def become_subreaper() -> None:
    """Adopt every descendant that loses its parent."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends; kept across exec."""
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
