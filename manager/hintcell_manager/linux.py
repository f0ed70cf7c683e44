"""What the manager asks of Linux beyond what Python's library offers, and the descriptors that it may have."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER: Final = 36

# Loaded here and not after a fork, when another thread might have held the loader's lock.
_libc: Final = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Become the parent of descendants whose parent dies, so that somebody reaps the workers of a killed template.

    Raises:
        OSError: this is not Linux, or the kernel refuses.
    """
    if sys.platform != "linux":
        raise OSError("hintcell's manager needs Linux: only there are its promises about processes kept")
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def dies_with_us() -> Callable[[], None]:
    """What a child runs before it executes its program (`preexec_fn`), to have the kernel kill it when we die.

    A program that asked for this itself could be stopped before it has, and would then outlive us.
    """
    parent = os.getpid()

    def ask_kernel() -> None:
        if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(1)

    return ask_kernel


def allow_all_descriptors() -> None:
    """Raise this process's limit of open descriptors as far as it may; the template inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
