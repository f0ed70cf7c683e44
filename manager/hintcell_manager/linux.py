"""The one thing that the manager asks of Linux beyond what Python's library offers."""

import ctypes
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
