"""The template: a process that has loaded everything a worker needs, and forks workers on request.

`python -P -m hintcell_worker.template --control FD`. It imports once, collects and freezes, stays single-threaded,
and never reads a byte of a session: it hands the connection on. Whoever starts it has the kernel end it with its
parent, as its workers end with it. `template_protocol` has the messages.
"""

import argparse
import array
import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from hintcell_worker import command
from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.process import die_with_parent
from hintcell_worker.template_protocol import (
    EXIT_FAILED,
    MAX_PACKET_BYTES,
    Exited,
    Fork,
    Forked,
    ForkFailed,
    FromTemplate,
    Kill,
    Ready,
    to_template,
)

_DESCRIPTORS_OF_FORK: Final = 2
_EXIT_PARENT_GONE: Final = 0
_EXIT_CANNOT_RUN: Final = 1


def main() -> int:
    """Run a template until its parent closes the control socket or dies."""
    parser = argparse.ArgumentParser(prog="hintcell_worker.template")
    parser.add_argument("--control", type=int, required=True)
    arguments = parser.parse_args()
    try:
        control = socket.socket(fileno=arguments.control)
        control.set_inheritable(False)
        _keep_forks_bare()
        _warm_up()
        if (threads := len(list(Path("/proc/self/task").iterdir()))) != 1:
            print(f"the template has {threads} threads: it must have one to fork safely", file=sys.stderr)
            return _EXIT_CANNOT_RUN
    except (OSError, ImportError) as error:
        print(f"the template cannot start: {error}", file=sys.stderr)
        return _EXIT_CANNOT_RUN
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        Template(control).serve()
    return _EXIT_PARENT_GONE


def _keep_forks_bare() -> None:
    """Have no library that is loaded from here on do anything in a forked worker.

    What `threading`, `logging` and `random` do there writes to 160 pages and takes a third of the worker's processor
    time between fork and exit; a worker has one thread, logs nothing and draws nothing.
    """

    def nothing(**_handlers: object) -> None:
        pass

    os.register_at_fork = nothing


def _warm_up() -> None:
    """Load and build everything that ranking uses, on a text of our own, and move it out of the collector's sight."""
    # The last code point has the tables of all of Unicode made.
    sample = (
        '{"snapshot_id":"s","query":"warmUp Ü","documents":[{"id":"a","text":"warmUp"},'
        f'{{"id":"b","text":"Übung2x{chr(sys.maxunicode)}"}}]}}'
    )
    for identifier_hints in (False, True):
        conversation = Conversation(Options(session=True, limit=1, identifier_hints=identifier_hints))
        list(conversation.receive(sample.encode() + b"\n"))
    gc.collect()
    gc.freeze()
    gc.disable()  # A worker builds no cycles worth a collection, and a collection would unshare the frozen pages.


class Template:
    """Forks workers and reports their ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._tokens: dict[int, int] = {}
        self._pid = os.getpid()

    def serve(self) -> None:
        """Take requests until the other end of the control socket is closed."""
        child_ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Whoever started the manager may have blocked some.
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)  # Also undoes an inherited "ignore".
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(child_ended, selectors.EVENT_READ)
            self._send(Ready())
            while True:
                for key, _ in selector.select():
                    if key.fd == child_ended:
                        os.read(child_ended, 4096)
                        self._reap()
                    elif not self._take_request():
                        return

    def _take_request(self) -> bool:
        packet, descriptors = _receive(self._control)
        if not packet:
            return False
        request = to_template.decode(packet)
        if isinstance(request, Fork) and len(descriptors) == _DESCRIPTORS_OF_FORK:
            self._fork(request, connection=descriptors[0], stderr=descriptors[1])
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        if isinstance(request, Kill):
            self._kill(request.token)
        else:
            self._send(
                ForkFailed(request.token, "the template has no free descriptors: close sessions or raise the limit")
            )
        return True

    def _fork(self, request: Fork, *, connection: int, stderr: int) -> None:
        try:
            pid = os.fork()
            if pid == 0:
                self._become_worker(request, connection, stderr)
        except OSError as error:
            reply: Forked | ForkFailed = ForkFailed(request.token, f"cannot fork a worker: {error.strerror}")
            pidfd = None
        else:
            self._tokens[pid] = request.token
            reply, pidfd = Forked(request.token, pid), _pidfd_open(pid)
        # Before anybody hears of the worker: a copy of its connection would hide its death from the client.
        os.close(connection)
        os.close(stderr)
        self._send(reply, [] if pidfd is None else [pidfd])
        if pidfd is not None:
            os.close(pidfd)

    def _become_worker(self, request: Fork, connection: int, stderr: int) -> NoReturn:
        status = EXIT_FAILED
        try:
            die_with_parent(self._pid)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(connection, 0)
            os.dup2(connection, 1)
            os.dup2(stderr, 2)
            os.close(connection)  # With these closed, there is a descriptor to list the others with.
            os.close(stderr)
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the cheapest list of what is open
                if (descriptor := int(name)) > 2:
                    with contextlib.suppress(OSError):  # The list's own descriptor is closed by now.
                        os.close(descriptor)
            status = command.serve_fork(request)
        finally:
            os._exit(status)  # Nothing of the template's may run in a worker: no exit handler, no buffer flushed twice.

    def _kill(self, token: int) -> None:
        for pid, held in self._tokens.items():
            if held == token:
                os.kill(pid, signal.SIGKILL)  # Not reaped yet, so the pid is still the worker's.

    def _reap(self) -> None:
        while self._tokens:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            token = self._tokens.pop(pid)
            # ru_maxrss is in KiB on Linux (getrusage(2)).
            self._send(Exited(token, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024))

    def _send(self, message: FromTemplate, descriptors: list[int] | None = None) -> None:
        socket.send_fds(self._control, [msgspec.json.encode(message)], descriptors or [])


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """One packet and the descriptors that came with it; none of them if any was lost."""
    space = socket.CMSG_SPACE(_DESCRIPTORS_OF_FORK * array.array("i").itemsize)
    # socket.recv_fds ignores its flags on Python 3.11, hence recvmsg.
    packet, ancillary, flags, _ = control.recvmsg(MAX_PACKET_BYTES, space, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        return packet, []
    return packet, descriptors.tolist()


def _pidfd_open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # No such call in this kernel, or no free descriptor: the caller can do without.
        return None


if __name__ == "__main__":
    sys.exit(main())
