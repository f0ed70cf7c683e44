"""What a forked child must not hold: its copies of connections would keep a dead parent's manager and workers alive.

The child closes them before its first line of Python runs. `making` keeps other threads from forking between the
making of a descriptor and its registration.
"""

import contextlib
import os
import socket
import threading
import weakref
from collections.abc import Generator

_held: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_lock = threading.RLock()
_is_hooked = False


@contextlib.contextmanager
def making() -> Generator[None, None, None]:
    """No other thread forks inside this context."""
    global _is_hooked  # noqa: PLW0603 - one hook for the process, set when it is first needed
    with _lock:
        if not _is_hooked:
            os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_close_all)
            _is_hooked = True
        yield


def close_in_child(connection: socket.socket) -> None:
    """Have every child that is forked while this socket is open close its copy; call it within `making`."""
    _held.add(connection)


def _close_all() -> None:
    for connection in list(_held):
        connection.close()
    _lock.release()
