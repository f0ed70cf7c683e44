"""What a forked child must forget: its copies of descriptors would keep a dead parent's manager and workers alive."""

import os
import threading
import weakref
from typing import Protocol


class Abandonable(Protocol):
    """Something that holds descriptors of a manager or a worker."""

    def abandon(self) -> None:
        """Close the copies that a forked child got, and touch nothing else."""


_held: weakref.WeakSet[Abandonable] = weakref.WeakSet()
_lock = threading.Lock()
_is_hooked = False


def abandon_after_fork(holder: Abandonable) -> None:
    """Have `holder` abandon its descriptors in every child that this process forks while the holder exists."""
    global _is_hooked  # noqa: PLW0603 - one hook for the process, set when it is first needed
    with _lock:
        _held.add(holder)
        if not _is_hooked:
            os.register_at_fork(after_in_child=_abandon_all)
            _is_hooked = True


def _abandon_all() -> None:
    for holder in list(_held):
        holder.abandon()
