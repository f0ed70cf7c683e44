"""The session door: a unix socket at which each connection says one line, and hears one.

Covers accepting, who may knock, bounded reading and the answer. What is behind the door decides for itself.
"""

import asyncio
import contextlib
import errno
import os
import resource
import select
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from hintcell_manager.protocol import (
    MAX_DOOR_LINE_BYTES,
    DoorReply,
    DoorRequest,
    Refused,
    door_requests,
    encode_line,
)

# A client has its line ready when it connects; whoever takes longer is not one.
LINE_DEADLINE_S: Final = 5.0
# Hundreds of agents may start at the same moment.
_BACKLOG: Final = 512
# Visitors may not use up the last: libzmq aborts the process when it finds none for a new control connection.
SPARE_DESCRIPTORS: Final = 64
_FEW_DESCRIPTORS: Final = Refused(
    "cannot_start", "the manager has few free descriptors left: close sessions, or raise its limit (ulimit -n)"
)
_OUT_OF_DESCRIPTORS: Final = {errno.EMFILE, errno.ENFILE}
_UCRED: Final = struct.Struct("3i")  # pid, uid, gid (unix(7), SO_PEERCRED)

Visit = Callable[[socket.socket, DoorRequest], Awaitable[None]]


class Door:
    """Accepts connections, reads their line, and passes both on; `visit` then owns the connection."""

    def __init__(self, path: Path, visit: Visit) -> None:
        """Listen at `path`.

        Raises:
            OSError: the socket cannot be made.
        """
        self._visit = visit
        self._loop = asyncio.get_running_loop()
        self._visits: set[asyncio.Task[None]] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.bind(os.fspath(path))
        self._socket.listen(_BACKLOG)
        # Given up for a moment when no other descriptor is left, to tell the visitor so.
        self._reserve: int | None = _reserve()
        self._loop.add_reader(self._socket, self._accept)

    async def close(self) -> None:
        """Accept nobody any more, and let go of everyone who has not been answered."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _OUT_OF_DESCRIPTORS:
                raise
            self._turn_away()
            return
        soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if connection.fileno() >= soft_limit - SPARE_DESCRIPTORS:  # The lowest free one was taken: few are left.
            with connection:
                answer(connection, _FEW_DESCRIPTORS)
            return
        connection.setblocking(False)
        visit = self._loop.create_task(self._receive(connection))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    def _turn_away(self) -> None:
        """Accept one visitor on the reserved descriptor, only to say that there is none for it."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
        with contextlib.suppress(OSError):
            connection, _ = self._socket.accept()
            with connection:
                answer(connection, _FEW_DESCRIPTORS)
        self._reserve = _reserve()

    async def _receive(self, connection: socket.socket) -> None:
        with contextlib.ExitStack() as unless_passed_on:
            unless_passed_on.callback(connection.close)
            if peer_uid(connection) != os.geteuid():
                return  # Not even a word: another user has no business in this directory.
            try:
                async with asyncio.timeout(LINE_DEADLINE_S):
                    line = await self._read_line(connection)
                request = door_requests.decode(line)
            except (TimeoutError, ConnectionError):
                return
            except (msgspec.MsgspecError, RecursionError) as error:
                answer(connection, Refused("bad_request", f"the door did not understand: {error}"))
                return
            unless_passed_on.pop_all()
        await self._visit(connection, request)

    async def _read_line(self, connection: socket.socket) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n") and len(line) <= MAX_DOOR_LINE_BYTES:
            data = await self._loop.sock_recv(connection, MAX_DOOR_LINE_BYTES)
            if not data:
                raise ConnectionResetError
            line += data
        # The client waits for its answer before it says more, so whatever follows a line end is no client's.
        return bytes(line)


def answer(connection: socket.socket, reply: DoorReply) -> bool:
    """Say one line; false if nobody is there to hear it. A line always fits a fresh socket's buffer."""
    try:
        connection.send(encode_line(reply), socket.MSG_DONTWAIT)
    except OSError:
        return False
    return True


def has_left(connection: socket.socket) -> bool:
    """Whether the visitor has hung up."""
    poller = select.poll()
    poller.register(connection, select.POLLRDHUP)
    return bool(poller.poll(0))


def peer_uid(connection: socket.socket) -> int:
    """The effective uid that the other end had when it connected."""
    _, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return int(uid)


def _reserve() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
