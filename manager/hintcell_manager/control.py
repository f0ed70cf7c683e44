"""The control endpoint: requests and replies over ZeroMQ, each handled on its own, and events for who listens.

Covers the socket, decoding and encoding. Requests may overlap: a permission change that waits for a process to
die holds up nobody.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import zmq
import zmq.asyncio

from hintcell_manager.protocol import ControlReply, ControlRequest, Failure, ManagerEvent, control_requests, encode

# A grant request with every label it may have is a quarter of this.
MAX_REQUEST_BYTES: Final = 1024 * 1024

Handle = Callable[[ControlRequest], Awaitable[ControlReply]]


class ControlEndpoint:
    """Serves control requests until `close`."""

    def __init__(self, path: Path, events_path: Path, handle: Handle) -> None:
        """Listen at `path`, and publish events at `events_path`.

        Raises:
            OSError: the socket cannot be made.
        """
        self._handle = handle
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.maxmsgsize = MAX_REQUEST_BYTES
        # Publishing never waits: a subscriber that is a thousand events behind loses some.
        self._events = zmq.Context.socket(self._context, zmq.PUB, socket_class=zmq.Socket)
        self._events.linger = 0
        try:
            self._socket.bind(f"ipc://{path}")
            self._events.bind(f"ipc://{events_path}")
        except zmq.ZMQError as error:
            self._context.destroy()
            raise OSError(error.errno, f"cannot listen at {path}: {error.strerror}") from error
        self._requests: set[asyncio.Task[None]] = set()
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def close(self) -> None:
        """Stop serving; requests under way are dropped."""
        for task in (self._serving, *self._requests):
            task.cancel()
        await asyncio.gather(self._serving, *self._requests, return_exceptions=True)
        self._socket.close()
        self._events.close()
        self._context.term()

    def publish(self, event: ManagerEvent) -> None:
        """Send an event to everyone who listens now."""
        with contextlib.suppress(zmq.ZMQError):  # Nobody can be told: the log still has it.
            self._events.send(msgspec.json.encode(event), zmq.DONTWAIT)

    async def _serve(self) -> None:
        while True:
            *address, body = await self._socket.recv_multipart()
            request = asyncio.get_running_loop().create_task(self._answer(address, body))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)

    async def _answer(self, address: list[bytes], body: bytes) -> None:
        try:
            reply = await self._handle(control_requests.decode(body))
        except msgspec.MsgspecError as error:
            reply = Failure(f"the manager did not understand: {error}")
        except OSError as error:
            reply = Failure(f"the manager cannot do it now: {error.strerror}")
        with contextlib.suppress(zmq.ZMQError):  # Whoever asked has left.
            await self._socket.send_multipart([*address, encode(reply)])  # pyright: ignore[reportUnknownMemberType]
