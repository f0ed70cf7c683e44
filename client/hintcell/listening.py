"""Events as a client hears them: a subscription that is in force once it is made, and ends with its client.

Covers the blocking subscription and the asyncio one, and giving back what they hold. Each has a ZeroMQ context of
its own, so that closing a client never waits for somebody who listens and is busy with something else.
"""

import asyncio
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final, Self

import msgspec
import zmq
import zmq.asyncio

from hintcell.control import GONE, LOOK_S, check_descriptors, hung_up
from hintcell.errors import ControlFailed, DeadlineExceeded, ManagerUnavailable, ProtocolViolated
from hintcell.sidecar import Sidecar
from hintcell_manager.protocol import ManagerEvent, events

# The manager answers a subscription at once, unless it stands still; it is given as long as for a control request.
LISTEN_DEADLINE_S: Final = 20.0

_LOOK_MS: Final = int(LOOK_S * 1000)


class Listening:
    """What `Client.events` gives: yields each ManagerEvent from when it was made on.

    It ends when the manager or the client is gone, or `close` is called.
    """

    def __init__(self, sidecar: Sidecar, check_owner: Callable[[], None]) -> None:
        """Subscribe, and wait until that counts.

        Args:
            sidecar: whose events.
            check_owner: raises in a forked child, where a subscription of the parent cannot be used.

        Raises:
            ControlFailed: there are no descriptors for it.
            ManagerUnavailable: the manager is gone.
            DeadlineExceeded: it did not answer within LISTEN_DEADLINE_S.
        """
        check_descriptors()
        self._sidecar = sidecar
        self._check_owner = check_owner
        self._lock = threading.Lock()
        self._closed = False
        context = zmq.Context()
        self._socket = _subscribed(context, sidecar.events_endpoint)
        self._give_back = weakref.finalize(self, _give_back, self._socket, context)
        try:
            until = time.monotonic() + LISTEN_DEADLINE_S
            while not self._socket.poll(_LOOK_MS):
                _check_answer(sidecar, until)
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ManagerEvent:
        self._check_owner()
        try:
            with self._lock:
                while not self._closed:
                    if self._socket.poll(_LOOK_MS):
                        if body := self._socket.recv():
                            return _event(body)
                    elif hung_up(self._sidecar.presence):
                        self._closed = True
        finally:
            if self._closed:  # Also by another thread, which has left the rest to this one.
                self.close()
        raise StopIteration

    def close(self) -> None:
        """Listen no more; whoever waits for an event, in another thread or below a signal handler, stops at a look."""
        self._closed = True
        if self._lock.acquire(blocking=False):  # Else who holds it does this next.
            try:
                self._give_back()
            finally:
                self._lock.release()


class AsyncListening:
    """What `AsyncClient.events` gives: `Listening` for asyncio, to be read by `async for`."""

    def __init__(self, sidecar: Sidecar, check_owner: Callable[[], None]) -> None:
        check_descriptors()
        self._sidecar = sidecar
        self._check_owner = check_owner
        self._lock = asyncio.Lock()
        self._closed = False
        context = zmq.asyncio.Context()
        self._socket = _subscribed(context, sidecar.events_endpoint)
        self._give_back = weakref.finalize(self, _give_back, self._socket, context)

    async def subscribed(self) -> Self:
        """Wait until the subscription counts; errors as those of making a `Listening`."""
        try:
            until = time.monotonic() + LISTEN_DEADLINE_S
            while not await self._socket.poll(_LOOK_MS):
                _check_answer(self._sidecar, until)
        except BaseException:
            self.close()
            raise
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ManagerEvent:
        self._check_owner()
        try:
            async with self._lock:
                while not self._closed:
                    if await self._socket.poll(_LOOK_MS):
                        if body := await self._socket.recv():
                            return _event(body)
                    elif hung_up(self._sidecar.presence):
                        self._closed = True
        finally:
            if self._closed:  # Also by another task, which has left the rest to this one.
                self.close()
        raise StopAsyncIteration

    def close(self) -> None:
        """As `Listening.close`."""
        self._closed = True
        if not self._lock.locked():  # Else who holds it does this next.
            self._give_back()


def _subscribed(context: zmq.Context[Any], endpoint: str) -> Any:
    try:
        listening = context.socket(zmq.SUB)
    except zmq.ZMQError as error:
        context.term()
        raise ControlFailed(f"cannot make a socket: {error.strerror}") from error
    listening.linger = 0
    listening.subscribe(b"")
    listening.connect(endpoint)
    return listening


def _give_back(listening: zmq.Socket[bytes] | zmq.asyncio.Socket, context: zmq.Context[Any]) -> None:
    listening.close()
    context.term()


def _check_answer(sidecar: Sidecar, until: float) -> None:
    if hung_up(sidecar.presence):
        raise ManagerUnavailable(GONE)
    if time.monotonic() > until:
        raise DeadlineExceeded(f"the manager did not answer within {LISTEN_DEADLINE_S:g} s")


def _event(body: bytes) -> ManagerEvent:
    try:
        return events.decode(body)
    except msgspec.MsgspecError as error:
        raise ProtocolViolated(f"the manager's event cannot be read: {error}") from error
