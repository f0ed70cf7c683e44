"""Control requests: one request, one reply, one deadline.

Each call has a socket of its own, so that calls from several threads or tasks overlap and none can get another's
reply.
"""

import select
import socket
import time
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
import zmq
import zmq.asyncio

from hintcell.errors import ControlFailed, DeadlineExceeded, ManagerUnavailable, ProtocolViolated
from hintcell.sidecar import Sidecar
from hintcell_manager.protocol import ControlReply, ControlRequest, Failure, PermissionChange, control_replies, encode

# Above the manager's own deadlines for the slowest request, which is a change that replaces a stuck template.
CONTROL_DEADLINE_S: Final = 20.0

# How often an asyncio call looks whether the manager is still there while it waits for its reply.
_LOOK_S: Final = 0.2
_GONE: Final = "the manager is gone, and its sessions with it: make a new client"

Reply = TypeVar("Reply", bound=ControlReply)


class Control:
    """Sends control requests to one manager. Thread-safe."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._context = zmq.Context()

    def ask(self, request: ControlRequest, reply_type: type[Reply]) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            ControlFailed: the manager says why it did not do it.
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: no reply came within CONTROL_DEADLINE_S.
        """
        until = time.monotonic() + CONTROL_DEADLINE_S
        try:
            asking = self._context.socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise ControlFailed(f"cannot make a socket: {error.strerror}") from error
        with asking:
            asking.linger = 0
            asking.connect(self._sidecar.control_endpoint)
            asking.send(encode(request))
            poller = zmq.Poller()
            poller.register(asking, zmq.POLLIN)
            poller.register(self._sidecar.presence, zmq.POLLIN)
            while (left_s := until - time.monotonic()) > 0:
                ready = dict(poller.poll(int(left_s * 1000) + 1))
                if asking in ready:
                    return _decode(asking.recv(), reply_type)
                if ready:  # The manager says nothing on this connection: it has closed it.
                    raise ManagerUnavailable(_GONE)
        raise DeadlineExceeded(f"the manager did not answer within {CONTROL_DEADLINE_S:g} s")

    def close(self) -> None:
        """Give back ZeroMQ's thread and descriptors."""
        self._context.term()


class AsyncControl:
    """Sends control requests to one manager, from any event loop."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._context = zmq.asyncio.Context()

    async def ask(self, request: ControlRequest, reply_type: type[Reply]) -> Reply:
        """As `Control.ask`."""
        try:
            asking = self._context.socket(zmq.DEALER)
        except zmq.ZMQError as error:
            raise ControlFailed(f"cannot make a socket: {error.strerror}") from error
        with asking:
            asking.linger = 0
            asking.connect(self._sidecar.control_endpoint)
            await asking.send(encode(request))
            for _ in range(int(CONTROL_DEADLINE_S / _LOOK_S)):
                if await asking.poll(int(_LOOK_S * 1000)):
                    return _decode(await asking.recv(), reply_type)
                if hung_up(self._sidecar.presence):
                    raise ManagerUnavailable(_GONE)
        raise DeadlineExceeded(f"the manager did not answer within {CONTROL_DEADLINE_S:g} s")

    def close(self) -> None:
        """Give back ZeroMQ's thread and descriptors."""
        self._context.destroy()


def permission_change(
    principal: str | None,
    labels: Sequence[str] | None,
    snapshot_id: str | None,
    session_id: str | None,
    *,
    everyone: bool,
) -> PermissionChange:
    """The message for a change; the same labels in another order are the same change."""
    unordered = None if labels is None else tuple(sorted(set(labels)))
    return PermissionChange(principal, unordered, snapshot_id, session_id, everyone)


def hung_up(connection: socket.socket) -> bool:
    """Whether the other process has closed the connection or is dead, also while bytes of it wait to be read."""
    poller = select.poll()
    poller.register(connection, select.POLLRDHUP)
    return bool(poller.poll(0))


def _decode(body: bytes, reply_type: type[Reply]) -> Reply:
    try:
        reply = control_replies.decode(body)
    except msgspec.MsgspecError as error:
        raise ProtocolViolated(f"the manager's reply cannot be read: {error}") from error
    if isinstance(reply, Failure):
        raise ControlFailed(reply.message)
    if not isinstance(reply, reply_type):
        raise ProtocolViolated("the manager replied to another request")
    return reply
