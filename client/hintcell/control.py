"""Control requests: one request, one reply, one deadline.

Each call has a socket of its own, so that calls from several threads or tasks overlap and none can get another's
reply.
"""

import asyncio
import contextlib
import os
import resource
import select
import socket
import time
from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
import zmq
import zmq.asyncio

from hintcell.errors import ControlFailed, DeadlineExceeded, ManagerUnavailable, ProtocolViolated
from hintcell_manager.protocol import (
    ControlReply,
    ControlRequest,
    Failure,
    PermissionChange,
    control_replies,
    encode,
)

# Above the manager's own deadlines for the slowest request, which is a change that replaces a stuck template.
CONTROL_DEADLINE_S: Final = 20.0

# A page of twenty is made, sent and read in a third of it.
_AWAKE_S: Final = 200e-6

# ZeroMQ makes about ten for its threads and each socket.
_SPARE_DESCRIPTORS: Final = 32
# How often somebody who waits for ZeroMQ looks whether the manager is still there.
LOOK_S: Final = 0.2
_HANDSHAKE_FAILED: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
GONE: Final = "the manager is gone, and its sessions with it: make a new client"

Reply = TypeVar("Reply", bound=ControlReply)


class CurveKeys(msgspec.Struct, frozen=True):
    """Keys for control over TCP: this side's pair, and the manager's public key, each 40 characters of Z85."""

    public: bytes
    secret: bytes
    manager: bytes


class Manager(msgspec.Struct, frozen=True):
    """Where a manager takes control requests.

    Attributes:
        control: its ZeroMQ endpoint.
        presence: a connection that hangs up when it is gone, if there is one.
        keys: what it wants to see first, if it is elsewhere.
    """

    control: str
    presence: socket.socket | None = None
    keys: CurveKeys | None = None


class Control:
    """Sends control requests to one manager. Thread-safe."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._context = zmq.Context()

    def ask(self, request: ControlRequest, reply_type: type[Reply]) -> Reply:
        """Send a request and wait for its reply.

        Raises:
            ControlFailed: the manager says why it did not do it, or the client was closed meanwhile.
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: no reply came within CONTROL_DEADLINE_S.
        """
        try:
            return self._ask(request, reply_type)
        except zmq.ContextTerminated:
            raise ControlFailed("the client was closed before the manager replied") from None
        except zmq.ZMQError as error:
            raise ControlFailed(f"cannot make a socket: {error.strerror}") from error

    def _ask(self, request: ControlRequest, reply_type: type[Reply]) -> Reply:
        until = time.monotonic() + CONTROL_DEADLINE_S
        body = _encode(request)
        check_descriptors()
        asking = self._context.socket(zmq.DEALER)
        with contextlib.ExitStack() as at_the_end:
            at_the_end.enter_context(asking)
            poller = zmq.Poller()
            poller.register(asking, zmq.POLLIN)
            if self._manager.presence is not None:
                poller.register(self._manager.presence, zmq.POLLIN)
            handshake = asking.get_monitor_socket(_HANDSHAKE_FAILED) if self._manager.keys else None
            if handshake is not None:
                at_the_end.callback(asking.disable_monitor)
                at_the_end.callback(handshake.close, 0)
                poller.register(handshake, zmq.POLLIN)
            _connect(asking, self._manager)
            asking.send(body)
            while (left_s := until - time.monotonic()) > 0:
                ready = dict(poller.poll(int(left_s * 1000) + 1))
                if asking in ready:
                    return _decode(asking.recv(), reply_type)
                if handshake in ready:
                    raise ControlFailed("the manager refused this key, or is not the one that its key names")
                if ready:  # The manager says nothing on this connection: it has closed it.
                    raise ManagerUnavailable(GONE)
        raise DeadlineExceeded(f"the manager did not answer within {CONTROL_DEADLINE_S:g} s")

    def close(self) -> None:
        """Give back ZeroMQ's thread and descriptors; a call under way in another thread ends."""
        self._context.term()


class AsyncControl:
    """Sends control requests to one manager, from any event loop."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._context = zmq.asyncio.Context()
        self._closed = False

    async def ask(self, request: ControlRequest, reply_type: type[Reply]) -> Reply:
        """As `Control.ask`."""
        try:
            return await self._ask(request, reply_type)
        except zmq.ZMQError as error:  # Also of a socket that `close` has closed.
            raise ControlFailed(f"cannot ask the manager: {error.strerror}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                # Closing a socket cancels who waits for it, and nobody else has cancelled this task.
                raise ControlFailed("the client was closed before the manager replied") from None
            raise

    async def _ask(self, request: ControlRequest, reply_type: type[Reply]) -> Reply:
        check_descriptors()
        with self._context.socket(zmq.DEALER) as asking:
            _connect(asking, self._manager)
            await asking.send(_encode(request))
            for _ in range(int(CONTROL_DEADLINE_S / LOOK_S)):
                if await asking.poll(int(LOOK_S * 1000)):
                    return _decode(await asking.recv(), reply_type)
                if self._manager.presence is not None and hung_up(self._manager.presence):
                    raise ManagerUnavailable(GONE)
        raise DeadlineExceeded(f"the manager did not answer within {CONTROL_DEADLINE_S:g} s")

    def close(self) -> None:
        """Give back ZeroMQ's thread and descriptors; who waits for a reply is told so."""
        self._closed = True
        self._context.destroy()


def _connect(asking: zmq.Socket[bytes] | zmq.asyncio.Socket, manager: Manager) -> None:
    asking.linger = 0
    if (keys := manager.keys) is not None:
        asking.curve_publickey, asking.curve_secretkey, asking.curve_serverkey = keys.public, keys.secret, keys.manager
    asking.connect(manager.control)


def permission_change(
    principal: str | None,
    labels: Sequence[str] | None,
    snapshot_id: str | None,
    session_id: str | None,
    *,
    everyone: bool,
) -> PermissionChange:
    """The message for a change; the same labels in another order are the same change.

    Raises:
        TypeError: the labels are one string.
    """
    unordered = None if labels is None else tuple(sorted(set(as_labels(labels))))
    return PermissionChange(principal, unordered, snapshot_id, session_id, everyone)


def as_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, in their order.

    Raises:
        TypeError: they are one string, whose letters nobody means.
    """
    if isinstance(labels, str):
        raise TypeError("labels is one string: give a list of labels")
    return tuple(labels)


def hung_up(connection: socket.socket) -> bool:
    """Whether the other process has closed the connection or is dead, also while bytes of it wait to be read.

    A connection that this process has closed has hung up as well.
    """
    descriptor = connection.fileno()
    if descriptor < 0:
        return True
    poller = select.poll()
    poller.register(descriptor, select.POLLRDHUP)
    return bool(poller.poll(0))


def stay_awake(connection: socket.socket) -> None:
    """Wait until there is something to read, or for the moment that a page takes that is ranked already.

    Who sleeps that long has to be woken, which takes longer where the core has gone idle meanwhile.
    """
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    until = time.monotonic() + _AWAKE_S
    while not poller.poll(0) and time.monotonic() < until:
        os.sched_yield()  # Whoever else wants this core goes first; the worker, for one.


def check_descriptors() -> None:
    """Raise ControlFailed when few descriptors are left: libzmq aborts the process when it gets none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        free = soft - len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the cheapest count of what is open
    except OSError:  # There is not even one to look with.
        free = 0
    if free < _SPARE_DESCRIPTORS:
        raise ControlFailed(f"{free} free descriptors are left: close something, or raise the limit (ulimit -n)")


def _encode(request: ControlRequest) -> bytes:
    try:
        return encode(request)
    except UnicodeEncodeError:
        raise ControlFailed("a name has an unpaired surrogate, which UTF-8 cannot write: replace it before") from None


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
