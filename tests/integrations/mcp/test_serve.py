"""Serving in a thread, while the main thread has the signals."""

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

import anyio.to_thread
import pytest

from hintcell.integrations.mcp import serve
from tests.client.cli.processes import EVENT_DEADLINE_S, wait_until


class _SignalError(Exception):
    pass


def _raise(_number: int, _frame: object) -> NoReturn:
    raise _SignalError


def _main_thread_waits() -> bool:
    """Whether it waits for the end of the input, as far as its frames tell."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return "wait" in [step.f_code.co_name for step, _ in traceback.walk_stack(frame)]


class _Signalled:
    """A server whose own thread gets a signal, and which goes on until a deadline or the end of the test."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.input_ended = threading.Event()

    async def run_stdio_async(self) -> None:
        await anyio.to_thread.run_sync(wait_until, _main_thread_waits)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        await anyio.to_thread.run_sync(self.stop.wait, EVENT_DEADLINE_S)


@pytest.fixture
def signalled() -> Iterator[Any]:
    before = signal.signal(signal.SIGUSR1, _raise)
    server = _Signalled()
    yield server
    server.stop.set()
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_another_thread_gets_is_heeded_while_it_serves(signalled: Any) -> None:
    with pytest.raises(_SignalError):
        serve(signalled)
    assert "hintcell mcp" in [thread.name for thread in threading.enumerate()]  # So it did not end by itself.
