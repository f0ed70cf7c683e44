"""What is held for each living session, and the look at all of them that it takes now and then.

Covers reading memory and activity of workers. What follows from a figure is `sessions`' business.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hintcell_manager.memory import ProcessReader
from hintcell_manager.protocol import ManagerOptions
from hintcell_manager.sampler import SessionSampler
from hintcell_manager.sessions import Instruction, Session, Sessions
from hintcell_manager.worker_process import WorkerProcess

# While a killed template dies, what it shared with a worker counts as the worker's alone, until that dies too.
_SECOND_LOOK_S: Final = 0.05


class Cell:
    """One living session: its connection until it is admitted, its process, who waits."""

    def __init__(self, session: Session, connection: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self.session: Final = session
        self.connection: socket.socket | None = connection
        self.worker: WorkerProcess | None = None
        self.reader: ProcessReader | None = None
        self.sampler: Final = SessionSampler(session.admitted_at)
        self.deadline: asyncio.TimerHandle | None = None
        self.dead: Final[asyncio.Future[None]] = loop.create_future()
        self.ended: Final[asyncio.Future[None]] = loop.create_future()


class Watch:
    """Looks at the worker of every session."""

    def __init__(
        self,
        options: ManagerOptions,
        sessions: Sessions,
        cells: Mapping[int, Cell],
        perform: Callable[[Iterable[Instruction]], None],
    ) -> None:
        self._options = options
        self._sessions = sessions
        self._cells = cells
        self._perform = perform
        self._loop = asyncio.get_running_loop()

    def look(self) -> None:
        """Read what may have changed, and do what follows."""
        for cell in list(self._cells.values()):
            with contextlib.suppress(OSError):  # No free descriptor to look with: the next time, perhaps.
                self._look_at(cell)

    def _look_at(self, cell: Cell) -> None:
        if cell.reader is None:
            return
        now = self._loop.time()
        if self._options.idle_timeout_s is not None and (activity := cell.reader.activity()) is not None:
            self._perform(self._sessions.active(cell.session, activity, now))
        rss_bytes = cell.reader.rss_bytes()
        if rss_bytes is None:
            return
        uss_bytes = None
        if cell.sampler.wants_full(rss_bytes, now):
            uss_bytes = cell.reader.memory(full=True).uss_bytes
        cell.sampler.note(rss_bytes, uss_bytes, now)
        if uss_bytes is not None and self._sessions.measured(cell.session, uss_bytes):
            self._loop.call_later(_SECOND_LOOK_S, self._look_again, cell)

    def _look_again(self, cell: Cell) -> None:
        """End a session that was over its limit a moment ago, and still is."""
        with contextlib.suppress(OSError):
            uss_bytes = cell.reader.memory(full=True).uss_bytes if cell.reader else None
            if uss_bytes is not None:
                self._perform(self._sessions.limit_memory(cell.session, uss_bytes, self._loop.time()))
