"""Where policies come from: the interface, and a file that is watched.

A source tells that something may have changed and reads what there is now; what follows is the business of `watch`.
Another source (a directory service, a database) is a class with these two methods.
"""

import os
import stat
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final, Protocol

from hintcell.policy.decode import decode_policy
from hintcell.policy.model import Policy, PolicyError

MAX_FILE_BYTES: Final = 1024 * 1024

# A file that is written in place is read only when nobody has written to it for so long: half of it can be valid, and
# allow more than the whole. An editor needs some milliseconds from the first byte to the last.
REST_S: Final = 0.2
# Whoever watches waits for half as long, and so sees every text that a search can have read.
WATCHING_REST_S: Final = 0.1
# A file that is written all the time is no policy.
_REST_DEADLINE_S: Final = 2.0
# How often the file is looked at whatever the kernel tells: it tells nothing of a folder on the way that was replaced,
# or of a file on another host.
_LOOK_S: Final = 0.3
# Events that come one upon the other are one change.
_STEP_S: Final = 0.01
_DEBOUNCE_S: Final = 0.05


class PolicySource(Protocol):
    """Where policies are read from. Both methods may be called from several threads."""

    def read(self) -> Policy:
        """The policy as it is now.

        Raises:
            PolicyError: there is none, or it has no meaning.
        """
        ...

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """Yield whenever the policy may have changed since the last time, until `stop` is set.

        The first time is soon after it is called, so that no change between a read before and the start is missed.
        """
        ...


def load_policy(path: str | os.PathLike[str], *, rest_s: float = REST_S) -> Policy:
    """The policy in a TOML file, as it is now.

    Args:
        path: the file.
        rest_s: for how many seconds nobody may have written to it, 0.2 by default; as long as somebody does, this
            waits, and for 2 s at most.

    Raises:
        PolicyError: there is no such file, it cannot be read, or it is no policy.
    """
    name = os.fspath(path)
    try:
        return decode_policy(_rested(name, rest_s))
    except PolicyError as error:
        raise PolicyError(f"the policy {name!r}: {error}") from error
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise PolicyError(f"the policy {name!r} cannot be read ({reason}): check its path and permissions") from error


class FilePolicySource:
    """A policy in a TOML file that may be edited, replaced, swapped by a link, removed and put back.

    Args:
        path: the file.
        rest_s: as for `load_policy`. For `watch` give 0.1, half of what searches wait for: so it sees every text that
            a search can have read.
    """

    def __init__(self, path: str | os.PathLike[str], *, rest_s: float = REST_S) -> None:
        self._path = Path(path)
        self._rest_s = rest_s
        self._failed = False

    def read(self) -> Policy:
        """See `load_policy`."""
        try:
            policy = load_policy(self._path, rest_s=self._rest_s)
        except PolicyError as error:
            # What the machine refuses now it may give later, without a sign at the file.
            self._failed = isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError)
            raise
        self._failed = False
        return policy

    def changes(self, stop: threading.Event) -> Generator[None]:
        """Yield when the file that the path leads to is another one, or was written to; see `PolicySource`."""
        seen: object = ()
        for _ in self._looks(stop):
            now = _looked_at(self._path)
            if now != seen or self._failed:
                seen = now
                yield

    def _looks(self, stop: threading.Event) -> Generator[None]:
        """Yield when the kernel tells of something in the folder, and every `_LOOK_S` anyway."""
        import watchfiles  # Loads anyio, which a search does not need.

        while not stop.is_set():
            folder = self._path.parent
            watched = _place(folder)
            try:
                for _ in watchfiles.watch(
                    folder,
                    watch_filter=None,
                    debounce=round(_DEBOUNCE_S * 1000),
                    step=round(_STEP_S * 1000),
                    rust_timeout=round(_LOOK_S * 1000),
                    yield_on_timeout=True,
                    stop_event=stop,
                    recursive=False,
                ):
                    yield
                    if _place(folder) != watched:
                        break
            except (OSError, RuntimeError):  # There is no such folder now, or no watch is left: looking has to do.
                stop.wait(_LOOK_S)
                yield


def _looked_at(path: Path) -> object:
    """The version of the file at this path, or the number of the error if there is none."""
    try:
        return _version(path.stat())
    except OSError as error:
        return error.errno


def _place(folder: Path) -> object:
    """Which folder is at this path; None if there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _rested(path: str, rest_s: float) -> bytes:
    """The bytes of the file, which nobody has written to for so long.

    Raises:
        OSError: it cannot be read.
        PolicyError: it is too large, not a file, or does not come to rest.
    """
    until = time.monotonic() + _REST_DEADLINE_S
    last: object = None
    while True:
        text, status = _read(path)
        version = _version(status)
        # Two equal looks tell it as well, should the file's clock be another one.
        if time.time() - status.st_ctime >= rest_s or version == last:
            return text
        if time.monotonic() > until:
            raise PolicyError("it is being written all the time: leave it as it is for a second")
        last = version
        time.sleep(rest_s)


def _read(path: str) -> tuple[bytes, os.stat_result]:
    """All bytes of the file, and what the kernel says of it after they were read."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise PolicyError("it is not a file: name the file that holds the policy")
        text = file.read(MAX_FILE_BYTES + 1)
        status = os.fstat(file.fileno())
    if len(text) > MAX_FILE_BYTES:
        raise PolicyError(f"it has over {MAX_FILE_BYTES:,} bytes: use fewer rules, of whole folders")
    return text, status


def _version(status: os.stat_result) -> object:
    """What differs when a file was written to, or is another one."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
