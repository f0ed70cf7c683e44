"""A real template, held by plain blocking calls instead of the manager's event loop."""

import array
import contextlib
import itertools
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import IO, TypeVar

import msgspec

from hintcell_worker.template_protocol import (
    MAX_PACKET_BYTES,
    Exited,
    Fork,
    Forked,
    ForkFailed,
    FromTemplate,
    Kill,
    Ready,
    from_template,
)
from tests.contract.conformance import converse_as
from tests.manager.places import PATIENCE_S
from tests.worker.requests import encode, small_request

SINGLE_THREADED = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MODULE = ("-P", "-m", "hintcell_worker.template")

REQUEST = encode(small_request())
ANSWER = converse_as(["--session", "--limit", "1"], [REQUEST]).stdout

_Message = TypeVar("_Message", Ready, Forked, ForkFailed, Exited)


class Worker:
    """A forked worker: our end of its connection, what it says on standard error, and its pidfd."""

    def __init__(self, token: int, connection: socket.socket, stderr: IO[bytes]) -> None:
        self.token = token
        self.connection = connection
        self.stderr = stderr
        self.pid = 0
        self.pidfd = -1

    def close(self) -> None:
        self.connection.close()
        self.stderr.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)


class TemplateProcess:
    """One template; its messages are heard in any order."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self.control = control
        self._tokens = itertools.count(1)
        self._heard: list[FromTemplate] = []
        self._pidfds: dict[int, int] = {}

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, message: Fork | Kill, descriptors: Sequence[int] = ()) -> None:
        socket.send_fds(self.control, [msgspec.json.encode(message)], descriptors)

    def hear(self, kind: type[_Message], token: int | None = None) -> _Message:
        """The message of this kind, about this worker, whatever else comes before it."""
        while True:
            for message in self._heard:
                if isinstance(message, kind) and token in (None, getattr(message, "token", None)):
                    self._heard.remove(message)
                    return message
            self._listen()

    def finish(self) -> None:
        """Return when the template has done, to the last close, whatever it was asked for before."""
        token = next(self._tokens)
        self.send(Fork(token, 1, identifier_hints=False))
        self.hear(ForkFailed, token)

    def ask(self, **options: object) -> Worker:
        """Ask for a worker; `forked` waits for it."""
        token = next(self._tokens)
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        worker = Worker(token, ours, open(reading, "rb"))  # noqa: SIM115, PTH123 - the worker owns it
        ours.settimeout(PATIENCE_S)
        fork = msgspec.convert({"type": "fork", "token": token, "limit": 1, "identifier_hints": False} | options, Fork)
        with theirs:
            self.send(fork, [theirs.fileno(), writing])
        os.close(writing)
        return worker

    def forked(self, worker: Worker) -> None:
        """Wait until the worker runs."""
        worker.pid = self.hear(Forked, worker.token).pid
        worker.pidfd = self._pidfds.pop(worker.token, -1)

    @contextlib.contextmanager
    def worker(self, **options: object) -> Iterator[Worker]:
        """A worker; its input ends with the block at the latest."""
        worker = self.ask(**options)
        try:
            self.forked(worker)
            yield worker
        finally:
            worker.close()

    def _listen(self) -> None:
        space = socket.CMSG_SPACE(array.array("i").itemsize)
        packet, ancillary, _, _ = self.control.recvmsg(MAX_PACKET_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        if not packet:
            raise ConnectionResetError("the template is gone")
        message = from_template.decode(packet)
        for _, _, data in ancillary:
            assert isinstance(message, Forked)
            (self._pidfds[message.token],) = array.array("i", data)
        self._heard.append(message)


def template_arguments(control: socket.socket) -> list[str]:
    return ["--control", str(control.fileno())]


@contextlib.contextmanager
def a_template(before: Sequence[str] = ()) -> Iterator[TemplateProcess]:
    """A template that is ready; `before` is a command that execs the rest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(PATIENCE_S)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [*before, sys.executable, *MODULE, *template_arguments(theirs)],
                pass_fds=[theirs.fileno()],
                env=SINGLE_THREADED,
            )
        try:
            template = TemplateProcess(process, ours)
            template.hear(Ready)
            yield template
        finally:
            ours.close()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
                process.wait()


def exchange(sends: Sequence[tuple[socket.socket, bytes]]) -> list[bytes]:
    """Send each input, end it, and return what came back on each connection until its end, all at the same time."""
    rests = {connection.fileno(): memoryview(data) for connection, data in sends}
    answers = {connection.fileno(): bytearray() for connection, _ in sends}
    by_number = {connection.fileno(): connection for connection, _ in sends}
    poll = select.poll()
    for number in by_number:
        poll.register(number, select.POLLIN | select.POLLOUT)
    listening = set(by_number)
    while listening:
        ready = poll.poll(PATIENCE_S * 1000)
        assert ready, "the workers neither read nor answer"
        for number, events in ready:
            connection = by_number[number]
            if events & select.POLLOUT and number in rests:
                try:
                    rests[number] = rests[number][connection.send(rests[number], socket.MSG_DONTWAIT) :]
                except BrokenPipeError:  # It has heard enough, and says why.
                    rests[number] = memoryview(b"")
                if not rests[number]:
                    del rests[number]
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_WR)
                    poll.modify(number, select.POLLIN)
            elif events & (select.POLLIN | select.POLLHUP):
                data = _receive(connection)
                answers[number] += data
                if not data:
                    listening.discard(number)
                    poll.unregister(number)
    return [bytes(answers[connection.fileno()]) for connection, _ in sends]


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536, socket.MSG_DONTWAIT)
    except ConnectionResetError:
        return b""


def ask_one_page(worker: Worker) -> None:
    """Send the first line of a session, and expect its answer."""
    worker.connection.sendall(REQUEST)
    with worker.connection.makefile("rb") as answers:
        assert answers.readline() == ANSWER


def last_words(worker: Worker) -> str:
    """Everything that the worker said on standard error until its end."""
    return worker.stderr.read().decode()
