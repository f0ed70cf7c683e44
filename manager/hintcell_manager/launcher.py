"""What starts workers, as the manager holds it: a template that forks them, or one fresh interpreter for each.

Covers processes, descriptors and packets. Does not cover what a message means for a session, or which template
forks next (`fleet`).
"""

import array
import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from hintcell_manager.linux import dies_with_us
from hintcell_manager.stderr_tail import StderrTail
from hintcell_worker.template_protocol import (
    MAX_PACKET_BYTES,
    Exited,
    Fork,
    Forked,
    FromTemplate,
    Kill,
    Ready,
    from_template,
)

# One thread each: only a process with a single thread forks safely, and a worker has no second core to use.
_SINGLE_THREADED: Final = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
)

_NONE: Final[list[int]] = []

OnMessage = Callable[["Launcher", FromTemplate, list[int]], None]
OnGone = Callable[["Launcher"], None]


class Launcher(Protocol):
    """Starts workers and tells of their starts and ends, through messages with descriptors.

    Attributes:
        pid: its own process; None if it has none.
        workers: the pid of each of its workers that has not been reported dead, by token; None until it has started.
        launched: how many workers it was asked for.
    """

    pid: int | None
    workers: dict[int, int | None]
    launched: int

    def fork(self, request: Fork, connection: int, stderr: int) -> None:
        """Ask for a worker on these descriptors, which stay the caller's to close.

        Raises:
            OSError: no worker can be asked for now.
        """
        ...

    def kill_worker(self, token: int) -> None:
        """Kill a worker of which nobody holds a pidfd."""
        ...

    def last_words(self) -> str:
        """The tail of what it wrote to standard error itself."""
        ...

    def close(self) -> None:
        """Kill it, and so its workers, and give back its descriptors. It is still to be reaped."""
        ...


class TemplateLauncher:
    """One template process. `on_gone` is called once, when it has closed its side: at its death at the latest."""

    def __init__(self, on_message: OnMessage, on_gone: OnGone) -> None:
        """Start the template.

        Raises:
            OSError: no descriptor or no process is left for it.
        """
        self._on_message = on_message
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self.workers: dict[int, int | None] = {}
        self.launched = 0
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(ours.close)
            self._stderr, stderr = StderrTail.open(self._loop)
            undo.callback(self._stderr.close)
            try:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "hintcell_worker.template"),
                        *("--control", str(theirs.fileno())),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    pass_fds=[theirs.fileno()],
                    env=os.environ | _SINGLE_THREADED,
                    start_new_session=True,  # A terminal's Ctrl-C is the manager's to handle.
                    preexec_fn=dies_with_us(),  # noqa: PLW1509 - it takes no lock
                )
            finally:
                os.close(stderr)
            undo.pop_all()
        self.pid: int | None = self._process.pid
        self._process.returncode = 0  # Reaped by the fleet, never by subprocess.
        self._control = ours
        self._control.setblocking(False)
        self._loop.add_reader(self._control, self._receive)

    def last_words(self) -> str:
        """As `Launcher.last_words`."""
        self._stderr.drain()
        return self._stderr.text().strip()

    def fork(self, request: Fork, connection: int, stderr: int) -> None:
        """As `Launcher.fork`."""
        socket.send_fds(self._control, [msgspec.json.encode(request)], [connection, stderr])
        self.workers[request.token] = None
        self.launched += 1

    def kill_worker(self, token: int) -> None:
        """As `Launcher.kill_worker`; the template is the worker's parent, so the pid cannot be another's."""
        with contextlib.suppress(OSError):  # It is gone, and took the worker along.
            self._control.send(msgspec.json.encode(Kill(token)))

    def close(self) -> None:
        """As `Launcher.close`."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)  # Not reaped yet: the pid is still its own.
        self._stderr.drain()
        self._stderr.close()

    def _receive(self) -> None:
        while self._control.fileno() >= 0:
            try:
                packet, ancillary, _flags, _ = self._control.recvmsg(
                    MAX_PACKET_BYTES, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                return
            except ConnectionError:
                packet, ancillary = b"", []
            if not packet:
                self._loop.remove_reader(self._control)
                self._on_gone(self)
                return
            # Of a pidfd that was lost for want of descriptors, MSG_CTRUNC would tell: the template can kill instead.
            descriptors = array.array("i")
            for level, kind, data in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
            message = from_template.decode(packet)
            if isinstance(message, Forked):
                self.workers[message.token] = message.pid
            elif not isinstance(message, Ready):
                self.workers.pop(message.token, None)
            self._on_message(self, message, descriptors.tolist())


class ExecLauncher:
    """Starts each worker as an interpreter of its own: no shared memory layout, no shared hash seed, a second each."""

    def __init__(self, on_message: OnMessage) -> None:
        """Be ready at once."""
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self.pid: int | None = None
        self.workers: dict[int, int | None] = {}
        self.launched = 0
        self._pidfds: dict[int, int] = {}
        self._loop.call_soon(on_message, self, Ready(), _NONE)

    def last_words(self) -> str:
        """As `Launcher.last_words`: it has no process to say anything."""
        return ""

    def fork(self, request: Fork, connection: int, stderr: int) -> None:
        """As `Launcher.fork`."""
        process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "hintcell_worker.fresh"),
                *("--request", msgspec.json.encode(request).decode()),
            ],
            stdin=connection,
            stdout=connection,
            stderr=stderr,
            env=os.environ | _SINGLE_THREADED,
            start_new_session=True,
            preexec_fn=dies_with_us(),  # noqa: PLW1509 - it takes no lock
        )
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:  # Nobody could see its end: there must be no such worker.
            process.kill()
            process.wait()
            raise
        process.returncode = 0  # Reaped here or at the burial, never by subprocess.
        self.launched += 1
        self.workers[request.token] = process.pid
        self._pidfds[request.token] = pidfd
        self._loop.add_reader(pidfd, self._reap, request.token, process.pid)
        self._loop.call_soon(self._on_message, self, Forked(request.token, process.pid), _NONE)

    def kill_worker(self, token: int) -> None:
        """As `Launcher.kill_worker`; the worker is our own child and not reaped, so the pid is still its own."""
        if (pid := self.workers.get(token)) is not None:
            os.kill(pid, 9)

    def close(self) -> None:
        """As `Launcher.close`."""
        for token in list(self.workers):
            self.kill_worker(token)
            self._forget(token)

    def _reap(self, token: int, pid: int) -> None:
        self._forget(token)
        _, status, usage = os.wait4(pid, 0)
        self.workers.pop(token, None)
        # ru_maxrss is in KiB on Linux (getrusage(2)).
        self._on_message(self, Exited(token, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024), [])

    def _forget(self, token: int) -> None:
        pidfd = self._pidfds.pop(token)
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
