"""Workers without a manager: forked from a warm template, or started cold, and every byte to and from them counted."""

import array
import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from bench.corpus import PAGE
from bench.sessions import NotMeasurableError
from hintcell_worker.protocol import Continuation, Response
from hintcell_worker.template_protocol import (
    MAX_PACKET_BYTES,
    Exited,
    Fork,
    Forked,
    ForkFailed,
    FromTemplate,
    Ready,
    from_template,
)

_SINGLE_THREADED: Final = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
# A template loads in a second, a page ranks in a tenth of one.
_PATIENCE_S: Final = 60.0
_READ_BYTES: Final = 256 * 1024

_Message = TypeVar("_Message", Ready, Forked, ForkFailed, Exited)
_response: Final[msgspec.json.Decoder[Response]] = msgspec.json.Decoder(Response)


class Exchange(NamedTuple):
    """What one worker, or several one after the other, took and gave."""

    took_s: float
    first_s: float
    bytes_in: int
    bytes_out: int
    peak_rss_bytes: int
    cursors: list[str]


class Template:
    """A template that is ready, and the workers that it is asked for, one at a time."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._tokens = itertools.count(1)
        self._hear(Ready)

    def single(self, request: bytes, *, hints: bool, cursor: str = "") -> Exchange:
        """One request for one page, to a worker of its own; it is gone afterwards, off the clock."""
        started = time.perf_counter()
        token, connection = self._fork(session=False, hints=hints, cursor=cursor)
        with connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = bytearray()
            while data := connection.recv(_READ_BYTES):
                answer += data
            following = _next_cursor(answer)
            took_s = time.perf_counter() - started
        exited = self._hear(Exited, token)
        if exited.status != 0:
            raise NotMeasurableError(f"a worker ended with status {exited.status}")
        cursors = [] if following is None else [following]
        return Exchange(took_s, took_s, len(request), len(answer), exited.peak_rss_bytes, cursors)

    def session(self, request: bytes, *, hints: bool) -> Exchange:
        """All pages of one request, from one worker."""
        started = time.perf_counter()
        token, connection = self._fork(session=True, hints=hints, cursor="")
        with connection, connection.makefile("rb") as answers:
            connection.sendall(request)
            answer = answers.readline()
            following = _next_cursor(answer)
            first_s = time.perf_counter() - started
            bytes_in, bytes_out, cursors = len(request), len(answer), []
            while following is not None:
                cursors.append(following)
                line = msgspec.json.encode(Continuation(following, PAGE)) + b"\n"
                connection.sendall(line)
                answer = answers.readline()
                following = _next_cursor(answer)
                bytes_in += len(line)
                bytes_out += len(answer)
            took_s = time.perf_counter() - started
        exited = self._hear(Exited, token)
        return Exchange(took_s, first_s, bytes_in, bytes_out, exited.peak_rss_bytes, cursors)

    def _fork(self, *, session: bool, hints: bool, cursor: str) -> tuple[int, socket.socket]:
        token = next(self._tokens)
        ours, theirs = socket.socketpair()
        ours.settimeout(_PATIENCE_S)
        fork = Fork(token, PAGE, hints, session=session, cursor=cursor)
        with theirs:
            # What the worker complains of goes where our complaints go.
            socket.send_fds(self._control, [msgspec.json.encode(fork)], [theirs.fileno(), sys.stderr.fileno()])
        self._hear(Forked, token)
        return token, ours

    def _hear(self, kind: type[_Message], token: int | None = None) -> _Message:
        """The next message, which has to be this one: there is one worker at a time."""
        space = socket.CMSG_SPACE(array.array("i").itemsize)
        packet, ancillary, _, _ = self._control.recvmsg(MAX_PACKET_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        for _, _, data in ancillary:
            for descriptor in array.array("i", data):
                os.close(descriptor)
        message: FromTemplate | None = from_template.decode(packet) if packet else None
        if not isinstance(message, kind) or (token is not None and getattr(message, "token", None) != token):
            raise NotMeasurableError(f"the template said {message!r}, and not {kind.__name__}")
        return message


@contextlib.contextmanager
def a_template() -> Iterator[Template]:
    """A template; it ends with the block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_PATIENCE_S)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "hintcell_worker.template", "--control", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=_SINGLE_THREADED,
            )
        try:
            yield Template(ours)
        finally:
            ours.close()
            _end(process)


def cold(request: bytes, *, hints: bool) -> float:
    """Seconds that a whole `hintcell-worker` takes for one page, its start included."""
    command = [str(Path(sys.executable).with_name("hintcell-worker")), "--limit", str(PAGE)]
    if hints:
        command.append("--identifier-hints")
    started = time.perf_counter()
    done = subprocess.run(
        command, input=request, stdout=subprocess.PIPE, env=_SINGLE_THREADED, timeout=_PATIENCE_S, check=False
    )
    took_s = time.perf_counter() - started
    if done.returncode != 0:
        raise NotMeasurableError(f"hintcell-worker ended with status {done.returncode}")
    return took_s


def _next_cursor(answer: bytes | bytearray) -> str | None:
    response = _response.decode(answer)
    if isinstance(response.page, msgspec.UnsetType) or isinstance(response.page.next_cursor, msgspec.UnsetType):
        return None
    return response.page.next_cursor


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a template whose control socket is closed, and end it if it does not leave."""
    timer = threading.Timer(_PATIENCE_S, process.kill)
    timer.start()
    process.wait()
    timer.cancel()
