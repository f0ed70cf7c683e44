"""The runtime directory: where a manager's sockets are, who may see them, and that one manager serves them.

The directory is the user's alone (0700); that, and the uid checked at the door, is what keeps others out. A lock
tells a living manager from a stale socket, because ZeroMQ would silently take over a living one's endpoint.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

from hintcell_manager.protocol import (
    CONTROL_NAME,
    DOOR_NAME,
    EVENTS_NAME,
    LOCK_NAME,
    MAX_SOCKET_PATH_BYTES,
    default_directory,
)

_PRIVATE_PREFIX: Final = "hintcell-private-"
_LOCKED_WITHIN_S: Final = 60.0
_OPEN_TO_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class RuntimeDirectoryError(Exception):
    """The directory cannot be used; the message says why and what to do."""


class RuntimeDirectory:
    """A directory that this process serves until `close`."""

    def __init__(self, path: Path, *, remove_at_close: bool) -> None:
        """Take over the directory, making it if it does not exist.

        Args:
            path: where the sockets shall be.
            remove_at_close: whether nobody needs the directory after this manager.

        Raises:
            RuntimeDirectoryError: others could reach it, its name is too long, or another manager serves it.
        """
        path = path.absolute()
        self.path: Final = path
        self.door: Final = path / DOOR_NAME
        self.control: Final = path / CONTROL_NAME
        self.events: Final = path / EVENTS_NAME
        self._remove_at_close = remove_at_close
        longest = max(len(os.fsencode(name)) for name in (self.door, self.control))
        if longest > MAX_SOCKET_PATH_BYTES:
            raise RuntimeDirectoryError(
                f"a socket in {path} would have a path of {longest} bytes: Linux allows {MAX_SOCKET_PATH_BYTES}, "
                "choose a shorter directory"
            )
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(path)
            self._lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise RuntimeDirectoryError(f"cannot use {path}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise RuntimeDirectoryError(
                f"another manager serves {path}: stop it or choose another directory"
            ) from error
        self._remove_sockets()  # Whoever left them was killed: the lock says that nobody serves them.

    def close(self) -> None:
        """Remove the sockets and let the next manager in."""
        self._remove_sockets()
        if self._remove_at_close:
            with contextlib.suppress(OSError):  # Somebody put something else there: not ours to remove.
                (self.path / LOCK_NAME).unlink(missing_ok=True)
                self.path.rmdir()
        os.close(self._lock)

    def _remove_sockets(self) -> None:
        for path in (self.door, self.control, self.events):
            path.unlink(missing_ok=True)


def private_directory() -> RuntimeDirectory:
    """A new directory for a manager that serves the client that started it, and goes with it.

    Directories left by managers and clients that were killed together are removed on the way.

    Raises:
        RuntimeDirectoryError: no directory can be made.
    """
    base = default_directory().parent
    for old in base.glob(f"{_PRIVATE_PREFIX}*"):
        with contextlib.suppress(OSError, RuntimeDirectoryError):
            # A new one is made and locked within a moment, so an old one without a lock has lost its manager.
            if old.lstat().st_mtime < time.time() - _LOCKED_WITHIN_S and (old / LOCK_NAME).exists():
                RuntimeDirectory(old, remove_at_close=True).close()
    try:
        path = Path(tempfile.mkdtemp(prefix=_PRIVATE_PREFIX, dir=base))
    except OSError as error:
        raise RuntimeDirectoryError(
            f"cannot make a directory in {base}: {error.strerror}; set XDG_RUNTIME_DIR to one of your own"
        ) from error
    try:
        return RuntimeDirectory(path, remove_at_close=True)
    except RuntimeDirectoryError:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _check_private(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise RuntimeDirectoryError(f"{path} is not a directory: choose another")
    if status.st_uid != os.geteuid():
        raise RuntimeDirectoryError(f"{path} belongs to another user: choose another directory")
    if status.st_mode & _OPEN_TO_OTHERS:
        raise RuntimeDirectoryError(f"{path} is open to other users: run chmod 700 on it or choose another directory")
