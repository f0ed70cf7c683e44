"""Which launcher starts the next worker: the current template, its successor, and those that are retired.

A template is replaced after a number of forks or at an age, so that one hash seed and one address layout do not
live forever, and at once when it dies or does not answer. A retired template forks nothing any more but stays
the parent of its workers until the last of them has ended.

    loading  ── ready ──►  current  ── successor ready ──►  retired
       └────── gone ───────────┴─────────── gone ───────────────┴──►  buried: it and all its workers are dead

The manager is a subreaper: the workers of a dead template become its own children. A burial ends when no such
child is left, so it covers also a worker whose fork was never reported.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

import psutil

from hintcell_manager.launcher import ExecLauncher, Launcher, TemplateLauncher
from hintcell_manager.protocol import ManagerOptions
from hintcell_worker.template_protocol import FromTemplate, Ready

# Loading scikit-learn takes about a second, ten on a machine that is busy with other things.
LOADING_DEADLINE_S: Final = 30.0
# A killed process is gone in milliseconds; one that waits for a broken disk may never be.
BURIAL_DEADLINE_S: Final = 5.0
_BURIAL_STEP_S: Final = 0.002
# A template that dies while loading has a reason that a moment later is likely still there.
_RETRY_S: Final = 5.0

# The exit status (or minus the signal's number) and peak RSS in bytes of processes reaped here, by pid.
Reaped = dict[int, tuple[int, int]]

log = logging.getLogger("hintcell.manager")


class Fleet:
    """All launchers of one manager."""

    def __init__(
        self,
        options: ManagerOptions,
        *,
        on_ready: Callable[[], None],
        on_message: Callable[[FromTemplate, list[int]], None],
        on_buried: Callable[[dict[int, int | None], Reaped], None],
        on_failed: Callable[[str], None],
    ) -> None:
        """Prepare; `start` starts the first launcher.

        Args:
            options: when to replace a template, and which kind of launcher to use.
            on_ready: `current` takes requests.
            on_message: a launcher reports a worker, with the descriptors that came along.
            on_buried: these workers (pid by token) are dead with their template; what was reaped is told.
            on_failed: no launcher can be had, for this reason.
        """
        self._options = options
        self._on_ready = on_ready
        self._on_message = on_message
        self._on_buried = on_buried
        self._on_failed = on_failed
        self._loop = asyncio.get_running_loop()
        self.current: Launcher | None = None
        self._loading: Launcher | None = None
        self._loading_deadline: asyncio.TimerHandle | None = None
        self._loading_retry_at = 0.0
        self._current_since = 0.0
        self._retired: list[Launcher] = []
        self._burials: set[asyncio.Task[None]] = set()
        self._burying = asyncio.Lock()
        self._reaped: Reaped = {}
        self._stopped = False

    def start(self) -> None:
        """Start a launcher that becomes the current one, unless one is on its way."""
        if self._loading is not None or self._stopped:
            return
        if self._options.launcher == "exec":
            self._loading = ExecLauncher(self._received)
            return
        try:
            self._loading = TemplateLauncher(self._received, self._gone)
        except OSError as error:
            self._on_failed(f"cannot start the template: {error.strerror}")
            return
        self._loading_deadline = self._loop.call_later(LOADING_DEADLINE_S, self.replace, self._loading)

    def replace(self, launcher: Launcher) -> None:
        """Bury a launcher that does not answer, with its workers, and start another if it was the current one."""
        if launcher in self._all():
            log.warning("template pid=%s does not answer: replacing it and its workers", launcher.pid)
            self._gone(launcher)

    def look_at_age(self) -> None:
        """Call now and then: replaces a template that is old or has forked enough, and one that is missing."""
        options, current = self._options, self.current
        now = self._loop.time()
        if current is None or current.pid is None or now < self._loading_retry_at:
            return
        old = options.template_max_age_s is not None and now - self._current_since >= options.template_max_age_s
        worn = options.template_max_forks is not None and current.launched >= options.template_max_forks
        if worn or (old and current.launched):
            self.start()

    @property
    def template_pid(self) -> int | None:
        """The template that forks, or the one that is loading to."""
        launcher = self.current or self._loading
        return None if launcher is None else launcher.pid

    @property
    def retired_pids(self) -> list[int]:
        """The templates that fork no more, and live for their workers."""
        return [launcher.pid for launcher in self._retired if launcher.pid is not None]

    async def stop(self) -> None:
        """Bury every launcher and all workers."""
        self._stopped = True
        for launcher in self._all():
            self._gone(launcher)
        await asyncio.gather(*self._burials)

    def _all(self) -> list[Launcher]:
        return [launcher for launcher in (self.current, *self._retired, self._loading) if launcher is not None]

    def _received(self, launcher: Launcher, message: FromTemplate, descriptors: list[int]) -> None:
        if isinstance(message, Ready):
            self._ready(launcher)
            return
        self._on_message(message, descriptors)
        if launcher in self._retired and not launcher.workers:
            self._gone(launcher)

    def _ready(self, launcher: Launcher) -> None:
        if launcher is not self._loading:
            return
        if self._loading_deadline is not None:
            self._loading_deadline.cancel()
        predecessor, self.current, self._loading = self.current, launcher, None
        self._current_since = self._loop.time()
        log.info("template ready pid=%s", launcher.pid)
        if predecessor is not None:
            self._retired.append(predecessor)
            if not predecessor.workers:
                self._gone(predecessor)
        self._on_ready()

    def _gone(self, launcher: Launcher) -> None:
        was_loading, was_current = launcher is self._loading, launcher is self.current
        if was_loading:
            self._loading = None
            if self._loading_deadline is not None:
                self._loading_deadline.cancel()
        elif was_current:
            self.current = None
        elif launcher in self._retired:
            self._retired.remove(launcher)
        else:
            return
        launcher.close()
        burial = self._loop.create_task(self._bury(launcher))
        self._burials.add(burial)
        burial.add_done_callback(self._burials.discard)
        if self._stopped:
            return
        if was_loading:
            self._loading_retry_at = self._loop.time() + _RETRY_S
            log.error("template pid=%s did not start", launcher.pid)
            if self.current is None:
                self._on_failed(f"the template did not start: {launcher.last_words() or 'it said nothing'}")
        elif was_current:
            log.warning("template pid=%s is gone", launcher.pid)
            self.start()

    async def _bury(self, launcher: Launcher) -> None:
        async with self._burying:  # One at a time: each takes every orphan for its own.
            try:
                async with asyncio.timeout(BURIAL_DEADLINE_S):
                    while self._may_be_alive(launcher):  # noqa: ASYNC110 - orphans become children without an event
                        await asyncio.sleep(_BURIAL_STEP_S)
            except TimeoutError:
                # What cannot be seen dead is not called dead: its sessions stay in ENDING.
                log.critical("template pid=%s or one of its workers does not die", launcher.pid)
                return
            self._on_buried(launcher.workers, self._reaped)
            if len(self._burials) == 1:  # Else what was reaped may be another's.
                self._reaped.clear()

    def _may_be_alive(self, launcher: Launcher) -> bool:
        """Whether the launcher or one of its workers lives, as far as can be seen; what is dead of them is reaped."""
        # The launcher first: only when it is reaped, all its workers are our children.
        if launcher.pid is not None and _reap({launcher.pid}, self._reaped):
            return True
        others = {pid for other in self._all() for pid in (other.pid, *other.workers.values())}
        try:
            children = {child.pid for child in psutil.Process().children()}
        except OSError:  # No free descriptor to look with: the next time, perhaps.
            return True
        return _reap(children - others, self._reaped)


def _reap(pids: set[int], reaped: Reaped) -> bool:
    """Reap those of these children that are dead, note how they ended, and tell whether one lives."""
    alive = False
    for pid in pids:
        try:
            found, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        if found == 0:
            alive = True
        else:
            # ru_maxrss is in KiB on Linux (getrusage(2)).
            reaped[pid] = (os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024)
    return alive
