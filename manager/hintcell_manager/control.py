"""The control endpoint: requests and replies over ZeroMQ, each handled on its own, and events for who listens.

Covers the sockets in the runtime directory, decoding and encoding. Requests may overlap: a permission change that
waits for a process to die holds up nobody. Control from elsewhere is `remote`'s business.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import zmq
import zmq.asyncio

from hintcell_manager.protocol import (
    ControlReply,
    ControlRequest,
    Failure,
    ManagerEvent,
    control_requests,
    encode,
)

# A grant request with every label it may have is a quarter of this.
MAX_REQUEST_BYTES: Final = 1024 * 1024

# How ZeroMQ tells of one (zmq_socket(3), ZMQ_XPUB).
_SUBSCRIPTION: Final = b"\x01"

Handle = Callable[[ControlRequest], Awaitable[ControlReply]]
# Why the sender with this ZeroMQ user id may not ask for that; None if it may.
Objection = Callable[[str, ControlRequest], str | None]


class Router:
    """Answers what arrives at one ROUTER socket, which it owns."""

    def __init__(self, router: zmq.asyncio.Socket, handle: Handle, *, objection: Objection | None = None) -> None:
        self._socket = router
        self._handle = handle
        self._objection = objection
        self._requests: set[asyncio.Task[None]] = set()
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def close(self) -> None:
        """Stop serving; requests under way are dropped."""
        for task in (self._serving, *self._requests):
            task.cancel()
        await asyncio.gather(self._serving, *self._requests, return_exceptions=True)
        self._socket.close()

    async def _serve(self) -> None:
        while True:
            *address, body = await self._socket.recv_multipart(copy=False)
            # Only an authenticated connection has a user id.
            sender = "" if self._objection is None else str(body.get("User-Id"))
            answer = self._answer([part.bytes for part in address], body.bytes, sender)
            request = asyncio.get_running_loop().create_task(answer)
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)

    async def _answer(self, address: list[bytes], body: bytes, sender: str) -> None:
        try:
            request = control_requests.decode(body)
            objection = self._objection(sender, request) if self._objection else None
            reply = Failure(objection) if objection else await self._handle(request)
        except (msgspec.MsgspecError, RecursionError) as error:
            reply = Failure(f"the manager did not understand: {error}")
        except OSError as error:
            reply = Failure(f"the manager cannot do it now: {error.strerror}")
        with contextlib.suppress(zmq.ZMQError):  # Whoever asked has left.
            await self._socket.send_multipart([*address, encode(reply)])  # pyright: ignore[reportUnknownMemberType]


class ControlEndpoint:
    """Serves control requests and publishes events in the runtime directory until `close`."""

    def __init__(self, path: Path, events_path: Path, handle: Handle) -> None:
        """Listen at `path`, and publish events at `events_path`.

        Raises:
            OSError: a socket cannot be made.
        """
        self._context = zmq.Context()
        shadow = zmq.asyncio.Context.shadow(self._context)  # pyright: ignore[reportUnknownMemberType]
        router = shadow.socket(zmq.ROUTER)
        # Publishing never waits: a subscriber that is a thousand events behind loses some.
        self._events = self._context.socket(zmq.XPUB)
        try:
            bind(router, f"ipc://{path}")
            self._events.linger = 0
            self._events.maxmsgsize = MAX_REQUEST_BYTES
            self._events.xpub_verbose = True  # Every subscription is seen, not only the first.
            self._events.bind(f"ipc://{events_path}")
        except (zmq.ZMQError, OSError) as error:
            self._context.destroy(linger=0)
            raise OSError(error.errno, f"cannot listen in {path.parent}: {error.strerror}") from error
        self._router = Router(router, handle)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._events, self._welcome)

    async def close(self) -> None:
        """Stop serving and publishing."""
        await self._router.close()
        self._loop.remove_reader(self._events)
        self._events.close()
        self._context.term()

    def publish(self, event: ManagerEvent) -> None:
        """Send an event to everyone who listens now."""
        with contextlib.suppress(zmq.ZMQError):  # Nobody can be told: the log still has it.
            self._events.send(msgspec.json.encode(event), zmq.DONTWAIT)
        self._welcome()  # ZeroMQ's descriptor tells of each change once, and the sending may have taken note of it.

    def _welcome(self) -> None:
        """Tell who has just subscribed that it counts, by an empty message, which everybody else passes over."""
        with contextlib.suppress(zmq.ZMQError):  # Until nothing is left to read.
            while True:
                if self._events.recv(zmq.DONTWAIT).startswith(_SUBSCRIPTION):
                    self._events.send(b"", zmq.DONTWAIT)


def bind(router: zmq.asyncio.Socket, endpoint: str) -> None:
    """Make a ROUTER socket listen, with the limits that every control socket has.

    Raises:
        OSError: it cannot listen there.
    """
    router.linger = 0
    router.maxmsgsize = MAX_REQUEST_BYTES
    try:
        router.bind(endpoint)
    except zmq.ZMQError as error:
        raise OSError(error.errno, error.strerror) from error
