"""What a worker needs of its process: streams that stray prints cannot reach, and memory given back.

The only module of the worker, with the template, that knows Linux.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Generator
from typing import Final

from hintcell_worker.protocol import RequestError

# Enough for any page, and too little for malloc to ask the system for fresh memory at each read (mallopt(3)).
_READ_BYTES: Final = 64 * 1024

# How long a reader stays awake for what comes next. Who turns pages asks for another within some ten microseconds, and
# to wake an idle core takes longer than to make the page.
_AWAKE_S: Final = 200e-6

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


class OutputError(Exception):
    """The response could not be written, and its reader is not simply gone."""


class Streams:
    """The protocol's two ends, moved off descriptors 0 and 1.

    Afterwards descriptor 0 reads nothing and descriptor 1 is standard error, so that neither a print nor a C
    library's output can get between two responses.
    """

    def __init__(self) -> None:
        try:
            self._input = _above_standard_error(0)
            self._output = _above_standard_error(1)
        except OSError as error:
            raise RequestError(f"standard input and output must both be open: {error.strerror}") from error
        lowest = os.open(os.devnull, os.O_RDWR)
        null = _above_standard_error(lowest)
        os.close(lowest)
        os.dup2(null, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # Standard error was closed by whoever started this process.
            os.dup2(null, 1)
            os.dup2(null, 2)
        os.close(null)
        self._readable = select.poll()
        self._readable.register(self._input, select.POLLIN)

    def read(self) -> bytes:
        """The next bytes of input; empty at its end, or when the peer is gone."""
        until = time.monotonic() + _AWAKE_S
        while not self._readable.poll(0) and time.monotonic() < until:
            os.sched_yield()  # Whoever else wants this core goes first.
        try:
            return os.read(self._input, _READ_BYTES)
        except ConnectionError:
            return b""
        except OSError as error:
            raise RequestError(f"cannot read the request: {error.strerror}") from error

    def write(self, data: bytes) -> bool:
        """Write all of `data`; false when the reader is gone."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._output, rest) :]
        except ConnectionError:
            return False
        except OSError as error:
            raise OutputError(f"cannot write the response: {error.strerror}") from error
        return True


def _above_standard_error(descriptor: int) -> int:
    """A copy that is none of the three standard ones, also when one of those is closed and would be taken first."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def give_back_freed_memory() -> None:
    """Return what malloc holds but does not use to the system (glibc; elsewhere nothing happens)."""
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@contextlib.contextmanager
def killed_after(deadline_s: float | None) -> Generator[None, None, None]:
    """Have the kernel end this process with SIGALRM if what runs inside takes longer, whatever code that is."""
    signal.setitimer(signal.ITIMER_REAL, deadline_s or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def forbid_core_dumps() -> None:
    """Keep a crash from writing this process's memory, and the documents in it, to disk."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    # One byte, and not none, also stops a dump that would be piped to a program (fs/coredump.c in Linux).
    limit = 0 if hard == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent's main thread ends, and end now if that was already.

    Args:
        parent: the pid that the parent had when it started this process.

    Raises:
        OSError: the kernel refuses.
    """
    if sys.platform != "linux":
        raise OSError("hintcell's processes need Linux: only there does the kernel end them with their parent")
    if _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
