"""One call of a tool, in the event loop and in the thread that works for it: how far that is, and who still waits.

The thread leaves word, and a task sends it on: the thread never waits for a client that does not read.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Final

import anyio
from mcp.server.mcpserver import Context

from hintcell.errors import HintcellError

# A few times a second is enough to be seen to move.
_REPORT_EVERY_S: Final = 0.3


class AbandonedError(HintcellError):
    """Nobody waits for the call any more."""


class Call:
    """One call of a tool."""

    def __init__(self) -> None:
        self._is_abandoned = False
        self._done = self._total = 0
        self._undo: Callable[[], object] | None = None

    def progress(self, done: int, total: int) -> None:
        """Called by the thread, as a `Progress` of the catalog.

        Raises:
            AbandonedError: to end the work.
        """
        if self._is_abandoned:
            raise AbandonedError("the call was cancelled")
        self._done, self._total = done, total

    def or_else(self, undo: Callable[[], object]) -> None:
        """Called by the thread: undo what it has done if nobody waits for the call any more, now or later."""
        self._undo = undo
        if self._is_abandoned:  # Looked at after the line above, as `abandon` does it the other way round: one sees.
            undo()

    def abandon(self) -> None:
        """Called by the event loop when the call is cancelled."""
        self._is_abandoned = True
        if self._undo is not None:
            self._undo()

    async def report(self, context: Context[Any, Any]) -> None:
        """Tell the client, if it asked for that, for as long as this is not cancelled."""
        reported = 0
        while True:
            await anyio.sleep(_REPORT_EVERY_S)
            done = self._done
            if done > reported:  # It must grow, also when a search is tried for the second time.
                await context.report_progress(done, self._total, "files read")
                reported = done


_current: Final[ContextVar[Call | None]] = ContextVar("hintcell_mcp_call", default=None)


def current_call() -> Call:
    """The call that this task or thread works for; one that nobody looks at, outside of any."""
    return _current.get() or Call()


def progress(done: int, total: int) -> None:
    """A `Progress` for catalogs of any call."""
    current_call().progress(done, total)


@asynccontextmanager
async def calling(context: Context[Any, Any] | None) -> AsyncGenerator[None]:
    """A call, for as long as the block runs; cancelled, it leaves nothing open."""
    call = Call()
    _current.set(call)
    async with anyio.create_task_group() as reporting:
        if context is not None:
            reporting.start_soon(call.report, context)
        try:
            yield
        except anyio.get_cancelled_exc_class():
            call.abandon()
            raise
        reporting.cancel_scope.cancel()
