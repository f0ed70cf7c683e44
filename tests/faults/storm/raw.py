"""Visitors that speak to the door themselves, and badly.

Each is a connection of the round's own. `Knock` says something that is no open; `Search` is admitted like any
client, and then stalls, leaves, floods, or never reads.
"""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Final, Literal, get_args

import msgspec

from hintcell_manager.protocol import Admitted, Attach, Grant, OpenRequest, Refused, door_replies, encode_line
from hintcell_worker.protocol import Request
from tests.faults.storm import catalogs
from tests.faults.storm.ledger import SessionRecord

Noise = Literal["garbage", "half_line", "megabyte", "silence", "attach", "foreign_grant", "hang_up"]
Manners = Literal[
    "stalls", "leaves_half_way", "never_reads", "floods", "long_line", "leaves_at_once", "asks_for_nothing"
]
NOISES: Final[tuple[Noise, ...]] = get_args(Noise)
MANNERS: Final[tuple[Manners, ...]] = get_args(Manners)

_READ_BYTES: Final = 64 * 1024
_FLOOD_LINES: Final = 20_000
# What a socket takes though nobody listens.
_FITS_BYTES: Final = 64 * 1024


def connect(door: Path) -> socket.socket | None:
    """A connection to the door; None if nobody listens, or the queue before it is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect(os.fspath(door))
    except OSError:
        connection.close()
        return None
    connection.setblocking(True)
    return connection


class Knock:
    """Says something to the door, and stays."""

    def __init__(self, connection: socket.socket, noise: Noise, grant: Grant) -> None:
        """Say it. `grant` is one that this manager gave."""
        self.connection: Final = connection
        self._noise = noise
        foreign = msgspec.structs.replace(grant, instance="0" * 32)
        says: dict[Noise, bytes] = {
            "garbage": b"\0\xff{]\n",
            "half_line": b'{"type":"op',
            "megabyte": b"x" * 1024 * 1024,
            "silence": b"",
            "attach": encode_line(Attach()),
            "foreign_grant": encode_line(OpenRequest(foreign, "s", 10)),
            "hang_up": encode_line(OpenRequest(grant, "s", 10))[:40],
        }
        threading.Thread(target=_say, args=(connection, says[noise]), daemon=True).start()
        if noise == "hang_up":
            connection.shutdown(socket.SHUT_WR)

    def objection(self, data: bytes) -> str | None:
        """What is wrong with this answer, if anything."""
        wanted = {"garbage": "bad_request", "foreign_grant": "unknown_grant"}.get(self._noise)
        if wanted is None or not data:
            return None
        reply = door_replies.decode(data)
        if isinstance(reply, Refused) and reply.reason in {wanted, "manager_stopped", "cannot_start"}:
            return None
        return f"the door answered {self._noise} with {type(reply).__name__}"


class Search:
    """Opens a session over a connection of its own, and has bad manners."""

    def __init__(self, connection: socket.socket, manners: Manners, session: SessionRecord) -> None:
        """Knock."""
        self.connection: Final = connection
        self.session: Final = session
        self._manners = manners
        self._saying: threading.Thread | None = None
        limit = catalogs.LIMITS[session.catalog]
        _say(connection, encode_line(OpenRequest(session.told.grant, session.snapshot_id, limit)))
        if manners == "leaves_at_once":
            self.leave()

    def take(self, data: bytes) -> Admitted | Refused | None:
        """Take what came from the door, and go on; what came later is a worker's, and is not looked at."""
        if self.session.ended_open is not None:
            return None
        self.session.ended_open = time.monotonic()
        reply = door_replies.decode(data)
        if isinstance(reply, Refused):
            return reply
        if not isinstance(reply, Admitted):
            raise TypeError(f"the door answered an open with {type(reply).__name__}")
        self.session.id, self.session.opened = reply.session_id, self.session.ended_open
        self._behave()
        return reply

    @property
    def reads(self) -> bool:
        """Whether it takes its worker's answers out of the socket."""
        return self._manners != "never_reads"

    def leave(self) -> None:
        """Hang up."""
        now = time.monotonic()
        self.session.is_closed = True
        self.session.may_end("completed", now)
        is_half_way = self._manners in {"stalls", "asks_for_nothing", "leaves_half_way", "leaves_at_once"}
        if is_half_way or (self._saying is not None and self._saying.is_alive()):
            self.session.may_end("rejected", now)
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _behave(self) -> None:
        session = self.session
        documents = catalogs.documents(session.key, session.catalog)
        request = msgspec.json.encode(Request(session.snapshot_id, catalogs.query(), documents)) + b"\n"
        half = request[: len(request) // 2]
        match self._manners:
            case "stalls":
                self._say(half)
            case "leaves_half_way":
                _say(self.connection, half[:_FITS_BYTES])
                self.leave()
            case "never_reads":
                self._say(request)
            case "floods":
                session.may_end("rejected", time.monotonic())
                self._say(request + b"{}\n" * _FLOOD_LINES)
            case "long_line":
                session.may_end("rejected", time.monotonic())
                self._say(request + b"x" * 65_536)
            case "asks_for_nothing" | "leaves_at_once":
                pass

    def _say(self, data: bytes) -> None:
        """Say all of it, however slowly it is listened to; ends when the connection does."""
        self._saying = threading.Thread(target=_say, args=(self.connection, data), daemon=True)
        self._saying.start()


def receive(connection: socket.socket) -> bytes | None:
    """What has arrived; None when the other end is gone."""
    try:
        return connection.recv(_READ_BYTES, socket.MSG_DONTWAIT) or None
    except BlockingIOError:
        return b""
    except OSError:
        return None


def _say(connection: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # The other end has heard enough.
        connection.sendall(data)
