"""Processes watched from outside: who they are, whether they have exited, and whether anything of them is left.

A process is known by a pid that the API reported, and held by a pidfd, so that a recycled pid is never taken for it.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import psutil
import pytest

from hintcell import Client, Session

# Nothing of hintcell is left so long after a kill (issue 2).
LEFT_WITHIN_S = 1.0
# For what takes milliseconds, on a machine under load.
SOON_S = 10.0

_PR_SET_CHILD_SUBREAPER = 36


class Watched:
    """One process, alive when this is made."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._process = psutil.Process(pid)
        self._pidfd = os.pidfd_open(pid)

    def has_exited(self, within_s: float = 0.0) -> bool:
        """Whether it is dead, reaped or not; waits no longer than that."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(within_s * 1_000))

    def is_left(self) -> bool:
        """Whether it runs or is a zombie. If it is our own dead child, an orphan that came to us, it is reaped."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return self._process.is_running()

    def kill(self) -> None:
        """Send SIGKILL and wait for the exit."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        assert self.has_exited(SOON_S)

    def stop(self) -> None:
        """Send SIGSTOP and wait until it has stopped."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGSTOP)
        until(lambda: self._process.status() == psutil.STATUS_STOPPED)

    def resume(self) -> None:
        """Send SIGCONT."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)

    def descriptors(self) -> int:
        """How many descriptors it has."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pidfd)


class Family:
    """The processes of one client: its manager, its template, and the workers of some sessions."""

    def __init__(self, client: Client, *sessions: Session) -> None:
        template = client.status().template_pid
        assert template is not None
        self.manager = Watched(client.manager_pid)
        self.template = Watched(template)
        self.workers = [Watched(session.pid) for session in sessions]

    def all(self) -> list[Watched]:
        return [self.manager, self.template, *self.workers]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all():
            process.__exit__()


def until(condition: Callable[[], object], within_s: float = SOON_S) -> None:
    """Wait for something that nobody tells us."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {within_s:g} s"
        time.sleep(0.002)


def until_more(count: Callable[[], int], by: int = 1) -> None:
    """Wait until something has happened so many times more."""
    then = count()
    until(lambda: count() >= then + by)


def assert_none_left(processes: list[Watched], within_s: float = LEFT_WITHIN_S) -> None:
    """No process of these runs or is a zombie, within a second from now."""

    def none_left() -> bool:
        left = [process.is_left() for process in processes]  # Each is asked, so that each orphan is reaped.
        return not any(left)

    until(none_left, within_s)


@pytest.fixture
def adopted_orphans() -> Iterator[None]:
    """Orphans come to this process, and not to one that this test knows nothing of."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def unread(session: Session) -> bytes:
    """What waits in the session's socket to be read; it stays there."""
    if not select.select([session._connection], [], [], 0)[0]:
        return b""
    return session._connection.recv(8 * 1024 * 1024, socket.MSG_PEEK)


def has_answer(session: Session) -> bool:
    """Whether a whole answer waits in the session's socket."""
    return unread(session).endswith(b"\n")
