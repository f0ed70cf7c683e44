"""One worker as the manager holds it: a pidfd where there is one, and the tail of its standard error."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from hintcell_manager.launcher import Launcher
from hintcell_manager.stderr_tail import StderrTail


class WorkerProcess:
    """Watches and kills one worker, and never another process that got its pid."""

    def __init__(self, launcher: Launcher, token: int, stderr: StderrTail) -> None:
        self.launcher = launcher
        self._token = token
        self._stderr = stderr
        self._pidfd: int | None = None
        self._pid = 0
        self._loop = asyncio.get_running_loop()

    def watch(self, pid: int, pidfd: int, on_death: Callable[[], None]) -> None:
        """Own this pidfd of this process and call `on_death` when it has exited."""

        def died() -> None:
            self._loop.remove_reader(pidfd)
            on_death()

        self._pidfd, self._pid = pidfd, pid
        self._loop.add_reader(pidfd, died)

    def unreaped_status(self) -> int | None:
        """How it ended (the status, or minus the signal's number), if it is dead and its parent has not reaped it."""
        if self._pidfd is None:
            return None
        try:
            # The fields from the third on, after the name in parentheses; the last is exit_code (proc_pid_stat(5)).
            fields = Path(f"/proc/{self._pid}/stat").read_bytes().rpartition(b")")[2].split()
            signal.pidfd_send_signal(self._pidfd, 0)  # Not reaped yet, so what was read is its own and no successor's.
        except OSError:
            return None
        return os.waitstatus_to_exitcode(int(fields[-1])) if fields[0] == b"Z" else None

    def kill(self) -> None:
        """Send SIGKILL; a worker that is dead already is left alone."""
        if self._pidfd is None:
            self.launcher.kill_worker(self._token)
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def last_words(self) -> str:
        """The tail of the worker's standard error, all of it read if the worker is dead."""
        self._stderr.drain()
        return self._stderr.text()

    def close(self) -> None:
        """Give back every descriptor."""
        self._drop_pidfd()
        self._stderr.close()

    def _drop_pidfd(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
