"""What the manager asks of Linux beyond what Python's library offers, and the descriptors that it may have."""

import ctypes
import resource
import sys
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h


def become_subreaper() -> None:
    """Become the parent of descendants whose parent dies, so that somebody reaps the workers of a killed template.

    Raises:
        OSError: this is not Linux, or the kernel refuses.
    """
    if sys.platform != "linux":
        raise OSError("hintcell's manager needs Linux: only there are its promises about processes kept")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def allow_all_descriptors() -> None:
    """Raise this process's limit of open descriptors as far as it may; the template inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
