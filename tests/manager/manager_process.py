"""A real manager process, spoken to over its raw protocols."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar, cast

import zmq

from hintcell_manager.protocol import (
    Admitted,
    ControlReply,
    ControlRequest,
    DoorReply,
    DoorRequest,
    End,
    EndRequest,
    Grant,
    GrantRequest,
    OpenRequest,
    Refused,
    Status,
    StatusRequest,
    control_replies,
    door_replies,
    encode,
    encode_line,
)
from tests.manager.places import PATIENCE_S
from tests.manager.template_process import ANSWER, REQUEST

_Reply = TypeVar("_Reply", bound=ControlReply)

SERVE = (sys.executable, "-P", "-m", "hintcell_manager", "serve")


class Opened:
    """A session that runs, and our end of its connection."""

    def __init__(self, connection: socket.socket, admitted: Admitted) -> None:
        self.connection = connection
        self.id = admitted.session_id
        self.pid = admitted.pid
        try:
            self.pidfd = os.pidfd_open(admitted.pid)
        except ProcessLookupError:  # It has refused and ended already.
            self.pidfd = -1

    def ask_one_page(self) -> None:
        self.connection.sendall(REQUEST)
        with self.connection.makefile("rb") as answers:
            assert answers.readline() == ANSWER

    def has_hung_up(self) -> bool:
        """Whether it shows already that the worker is gone, without reading."""
        poll = select.poll()
        poll.register(self.connection, select.POLLRDHUP)
        return bool(poll.poll(0))

    def close(self) -> None:
        self.connection.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)


class ManagerProcess:
    """One manager, with one control connection of our own, and more connections whenever they are wanted."""

    def __init__(
        self, process: subprocess.Popen[bytes], directory: Path, context: zmq.Context[zmq.Socket[bytes]]
    ) -> None:
        self.process = process
        self.directory = directory
        self._context = context
        self._control = context.socket(zmq.DEALER)
        self._connect(self._control)

    def close(self) -> None:
        self._control.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_for_log(self, text: str) -> None:
        """Read the log up to the line that has this text."""
        log = cast(IO[bytes], self.process.stderr)
        seen = b""
        while text.encode() not in (line := log.readline()):
            seen += line
            assert line, f"the manager ended without {text!r}: {seen.decode()}"

    @contextlib.contextmanager
    def control(self) -> Iterator[zmq.Socket[bytes]]:
        """Another control connection."""
        with self._context.socket(zmq.DEALER) as control:
            self._connect(control)
            yield control

    def _connect(self, control: zmq.Socket[bytes]) -> None:
        control.linger = 0
        control.rcvtimeo = PATIENCE_S * 1000
        control.connect(f"ipc://{self.directory / 'control'}")

    def say(self, body: bytes) -> ControlReply:
        """The reply to this body, whatever it is."""
        self._control.send(body)
        return control_replies.decode(self._control.recv())

    def ask(self, request: ControlRequest, reply: type[_Reply]) -> _Reply:
        answer = self.say(encode(request))
        assert isinstance(answer, reply), answer
        return answer

    def grant(self, principal: str = "alice", labels: tuple[str, ...] = ()) -> Grant:
        return self.ask(GrantRequest(principal, labels), Grant)

    def status(self, *, full_memory: bool = False) -> Status:
        return self.ask(StatusRequest(full_memory), Status)

    def wait_for_sessions(self, count: int) -> Status:
        """The status in which so many sessions are known; each question is an event that lets the manager get on."""
        for _ in range(10_000):
            if len((status := self.status()).sessions) == count:
                return status
        raise AssertionError(f"there are {len(status.sessions)} sessions, not {count}")

    def end(self, session_id: str) -> End:
        return self.ask(EndRequest(session_id), End)

    def knock(self, line: DoorRequest | bytes) -> socket.socket:
        """A new connection on which this was said at the door."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_S)
        connection.connect(os.fspath(self.directory / "door"))
        with contextlib.suppress(BrokenPipeError):  # Turned away before it said anything: the answer is there.
            connection.sendall(line if isinstance(line, bytes) else encode_line(line))
        return connection

    def refusal(self, line: DoorRequest | bytes) -> Refused:
        """What somebody hears who is not let in."""
        with self.knock(line) as connection:
            reply = answer_at(connection)
            assert isinstance(reply, Refused), reply
            with contextlib.suppress(ConnectionResetError):  # It may hang up without having read what was said.
                assert connection.recv(1) == b""
            return reply

    @contextlib.contextmanager
    def session(self, grant: Grant | None = None, *, snapshot_id: str = "s1", limit: int = 1) -> Iterator[Opened]:
        connection = self.knock(OpenRequest(grant or self.grant(), snapshot_id, limit))
        with connection:
            admitted = answer_at(connection)
            assert isinstance(admitted, Admitted), admitted
            opened = Opened(connection, admitted)
            try:
                yield opened
            finally:
                opened.close()


def answer_at(connection: socket.socket) -> DoorReply:
    """The door's line on this connection, and not a byte more."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        assert byte, f"hung up after {line!r}"
        line += byte
    return door_replies.decode(line)


@contextlib.contextmanager
def a_manager(
    directory: Path,
    *,
    before: Sequence[str] = (),
    options: str = "{}",
    environment: Mapping[str, str] | None = None,
    until: str = "template ready",
) -> Iterator[ManagerProcess]:
    """A manager that has logged `until`, run by the command `before` if given; stopped at the end, if it still runs."""
    with zmq.Context() as context:
        process = subprocess.Popen(
            [*before, *SERVE, "--directory", os.fspath(directory), "--options", options],
            stderr=subprocess.PIPE,
            env=os.environ | (environment or {}),
        )
        with process, contextlib.ExitStack() as at_the_end:
            at_the_end.callback(process.kill)
            manager = ManagerProcess(process, directory, context)
            at_the_end.callback(manager.close)
            manager.wait_for_log(until)
            yield manager
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
