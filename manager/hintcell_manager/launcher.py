"""The template process as the manager holds it: start it, ask it for workers, hear of their ends, bury it.

Covers descriptors and packets. Does not cover what a message means for a session.
"""

import array
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final

import msgspec

from hintcell_manager.stderr_tail import StderrTail
from hintcell_worker.template_protocol import MAX_PACKET_BYTES, Fork, FromTemplate, Kill, from_template

# One thread each: only a process with a single thread forks safely, and a worker has no second core to use.
_SINGLE_THREADED: Final = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
)

# A killed process is gone in milliseconds; one that waits for a broken disk may never be.
BURIAL_DEADLINE_S: Final = 5.0
_BURIAL_STEP_S: Final = 0.002


class Launcher:
    """One template process, from its start to its burial.

    `on_message` gets each message with the descriptors that came along; `on_gone` is called once, when the
    template has closed its side, which it does at its death at the latest.
    """

    def __init__(
        self,
        *,
        on_message: Callable[[FromTemplate, list[int]], None],
        on_gone: Callable[[], None],
    ) -> None:
        """Start the template.

        Raises:
            OSError: no descriptor or no process is left for it.
        """
        self._on_message = on_message
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(ours.close)
            self._stderr, stderr = StderrTail.open(self._loop)
            undo.callback(self._stderr.close)
            try:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "hintcell_worker.template"),
                        *("--control", str(theirs.fileno()), "--parent", str(os.getpid())),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    pass_fds=[theirs.fileno()],
                    env=os.environ | _SINGLE_THREADED,
                    start_new_session=True,  # A terminal's Ctrl-C is the manager's to handle.
                )
            finally:
                os.close(stderr)
            undo.pop_all()
        self._control = ours
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._receive)

    @property
    def pid(self) -> int:
        """The template's process."""
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The tail of what the template wrote to standard error."""
        return self._stderr.text()

    def fork(self, request: Fork, connection: int, stderr: int) -> None:
        """Ask for a worker on these descriptors, which stay the caller's to close.

        Raises:
            OSError: the template takes no requests.
        """
        socket.send_fds(self._control, [msgspec.json.encode(request)], [connection, stderr])

    def kill_worker(self, token: int) -> None:
        """Have the template kill a worker, for want of a pidfd.

        Raises:
            OSError: the template takes no requests.
        """
        self._control.send(msgspec.json.encode(Kill(token)))

    def kill(self) -> None:
        """Kill the template, and so its workers."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def bury(self) -> dict[int, tuple[int, int]]:
        """Kill the template and reap it and all its workers.

        The manager is a subreaper: orphaned workers become its children. When it has no child left, every
        worker is dead, also one whose fork was never reported.

        Returns:
            (exit status or minus the signal's number, peak RSS in bytes) of each worker reaped here, by pid.

        Raises:
            TimeoutError: some process did not end within BURIAL_DEADLINE_S.
        """
        self._loop.remove_reader(self._control)
        self._control.close()
        self.kill()
        reaped: dict[int, tuple[int, int]] = {}
        async with asyncio.timeout(BURIAL_DEADLINE_S):
            while _reap_children(reaped):  # noqa: ASYNC110 - orphans become children without an event
                await asyncio.sleep(_BURIAL_STEP_S)
        self._process.returncode, _ = reaped.pop(self._process.pid, (-signal.SIGKILL, 0))
        self._stderr.drain()
        self._stderr.close()
        return reaped

    def _receive(self) -> None:
        while True:
            try:
                packet, ancillary, flags, _ = self._control.recvmsg(
                    MAX_PACKET_BYTES, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except ConnectionError:
                packet, ancillary, flags = b"", [], 0
            if not packet:
                self._loop.remove_reader(self._control)
                self._on_gone()
                return
            descriptors = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
            del flags  # A lost pidfd is done without: the template can kill, and reports every exit.
            self._on_message(from_template.decode(packet), descriptors.tolist())


def _reap_children(reaped: dict[int, tuple[int, int]]) -> bool:
    """Reap every child that is dead, note its status and peak RSS, and tell whether one lives."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        # ru_maxrss is in KiB on Linux (getrusage(2)).
        reaped[pid] = (os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)


class WorkerProcess:
    """One worker as the manager holds it: a pidfd where there is one, and the tail of its standard error."""

    def __init__(self, launcher: Launcher, token: int, stderr: StderrTail) -> None:
        self._launcher = launcher
        self._token = token
        self._stderr = stderr
        self._pidfd: int | None = None
        self._loop = asyncio.get_running_loop()

    def watch(self, pidfd: int, on_death: Callable[[], None]) -> None:
        """Own this pidfd and call `on_death` when the process has exited."""

        def died() -> None:
            self._drop_pidfd()
            on_death()

        self._pidfd = pidfd
        self._loop.add_reader(pidfd, died)

    def kill(self) -> None:
        """Send SIGKILL; a worker that is dead already is left alone, and so is whoever got its pid."""
        if self._pidfd is None:
            with contextlib.suppress(OSError):  # The template is gone, and took the worker along.
                self._launcher.kill_worker(self._token)
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
