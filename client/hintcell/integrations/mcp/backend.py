"""The searches of one principal, and what they need: a client, made when it is first needed, and the policy's watch.

A manager that is gone is told to whoever used a session of it; the next search starts another, or finds it. Under a
policy, nothing is searched unless the policy is being watched: a watch that ends takes the searches with it.
"""

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from hintcell.client import Client
from hintcell.errors import HintcellError, ManagerUnavailable
from hintcell.searches import MAX_SESSIONS, CatalogSource, Results, Searches, SearchFailed
from hintcell_manager.protocol import ChangeReport, ManagerOptions
from hintcell_worker.protocol import Limits

# The first thing that a watch does is to read a small file and to ask the manager once.
WATCH_DEADLINE_S: Final = 30.0
# It looks up several times a second.
UNWATCH_DEADLINE_S: Final = 2.0


class Revoking(Protocol):
    """What a watch asks of a client."""

    def permission_changed(self, *, principal: str | None = None, labels: Sequence[str] | None = None) -> ChangeReport:
        """End every session that matches all that is given, and outdate every such grant."""
        ...


Watcher = Callable[[Revoking, threading.Event, Callable[[], None]], None]
"""Ends sessions as permissions change, until the event is set; calls the function when no change is missed any more.

When it returns or raises before, nothing that it should have watched is served any more.
"""


class Settings(Struct, frozen=True, kw_only=True):
    """What a backend is to do.

    Attributes:
        principal: who searches, each time.
        directory: of a shared manager; None starts a private one.
        options: of the private manager.
        watcher: of the policy that the catalog's source goes by, if there is one.
        labels: of every grant.
        identifier_hints: also rank by parts of identifiers.
        limits: raised ones.
        max_sessions: searches that stay open; another one closes the longest unused.
    """

    principal: str
    directory: Path | None = None
    options: ManagerOptions = ManagerOptions()
    watcher: Watcher | None = None
    labels: tuple[str, ...] = ()
    identifier_hints: bool = False
    limits: Limits | None = None
    max_sessions: int = MAX_SESSIONS


class Backend:
    """What the tools call, from any thread."""

    def __init__(self, catalog: CatalogSource, settings: Settings) -> None:
        """Search what `catalog` gives; nothing is started yet."""
        self._catalog = catalog
        self._settings = settings
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._is_closed = False

    def search(self, query: str, globs: Sequence[str], limit: int) -> Results:
        """A new search and its first page.

        Tried twice where the second time may help: with another manager when the first is gone, and with what may be
        read now when that changed on the way.

        Raises:
            SearchFailed: it cannot be done.
        """
        line = self._connected()
        try:
            return line.search(query, globs, limit)
        except SearchFailed as error:
            if line.is_over or _is_of_manager(error):
                self._drop(line)
            elif error.reason != "permission_changed":
                raise
        return self._connected().search(query, globs, limit)

    def read(self, session: str, cursor: str, limit: int) -> Results:
        """The page of an earlier search at one of its cursors.

        Raises:
            SearchFailed: it cannot be given; `unknown_session` also after the manager was replaced.
        """
        line = self._line
        if line is None:
            raise SearchFailed("unknown_session", "there is no such search: search again")
        return line.read(session, cursor, limit)

    def close_search(self, session: str) -> bool:
        """End a search; False if there is none of that name."""
        line = self._line
        return line is not None and line.close_search(session)

    def close(self) -> None:
        """End every search, the watch, and a private manager."""
        with self._lock:
            self._is_closed = True
            line, self._line = self._line, None
        if line is not None:
            line.close()

    def _connected(self) -> "_Line":
        with self._lock:
            if self._is_closed:
                raise SearchFailed("unavailable", "the server is ending: start it again")
            if self._line is not None and self._line.is_over:
                self._line.close()
                self._line = None
            if self._line is None:
                try:
                    self._line = _Line(self._catalog, self._settings)
                except HintcellError as error:
                    raise SearchFailed("unavailable", str(error)) from error
            return self._line

    def _drop(self, line: "_Line") -> None:
        with self._lock:
            if self._line is line:
                self._line = None
        line.close()


class _Line:
    """One client with its searches, and the watch over them."""

    def __init__(self, catalog: CatalogSource, settings: Settings) -> None:
        """Start or find the manager.

        Raises:
            HintcellError: there is none, or the policy cannot be watched.
        """
        directory, watcher = settings.directory, settings.watcher
        self._principal = settings.principal
        self._client = Client(directory, options=settings.options if directory is None else None)
        self._searches = Searches(
            self._client,
            catalog,
            labels=settings.labels,
            identifier_hints=settings.identifier_hints,
            limits=settings.limits,
            max_sessions=settings.max_sessions,
        )
        self._watch = None if watcher is None else _Watch(watcher, _Own(self._client, settings.principal), self._end)
        try:
            if self._watch is not None:
                self._watch.start()
        except BaseException:
            self.close()
            raise

    @property
    def is_over(self) -> bool:
        """Whether the policy is not being watched any more, though there is one."""
        return self._watch is not None and self._watch.is_over

    def search(self, query: str, globs: Sequence[str], limit: int) -> Results:
        """See `Searches`."""
        return self._watched(lambda: self._searches.search(self._principal, query, globs=globs, limit=limit))

    def read(self, session: str, cursor: str, limit: int) -> Results:
        """See `Searches`."""
        return self._watched(lambda: self._searches.read(self._principal, session, cursor, limit=limit))

    def close_search(self, session: str) -> bool:
        """See `Searches`."""
        return self._searches.close_search(self._principal, session)

    def close(self) -> None:
        """End the searches, the watch, and a private manager."""
        self._searches.close()
        if self._watch is not None:
            self._watch.stop()
        self._client.close()

    def _watched(self, ask: Callable[[], Results]) -> Results:
        """The results, unless what may be read is not known any more."""
        try:
            results = ask()
        except SearchFailed as error:
            if self.is_over:
                raise _unwatched() from error
            raise
        if self.is_over:
            raise _unwatched()
        return results

    def _end(self) -> None:
        """Serve nothing more, since what may be read is not known any more."""
        self._searches.close()
        self._client.close()


class _Own:
    """A client that ends sessions of one principal alone: a shared manager has others, with watches of their own."""

    def __init__(self, client: Client, principal: str) -> None:
        self._client = client
        self._principal = principal

    def permission_changed(self, *, principal: str | None = None, labels: Sequence[str] | None = None) -> ChangeReport:
        if principal not in (None, self._principal):
            return ChangeReport(0, (), 0.0)
        return self._client.permission_changed(principal=self._principal, labels=labels)


class _Watch:
    """A watcher in a thread, which is known to have begun, and is known to have ended."""

    def __init__(self, watcher: Watcher, own: Revoking, end: Callable[[], None]) -> None:
        self._watcher = watcher
        self._own = own
        self._end = end
        self._stop = threading.Event()
        self._began = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hintcell policy watch", daemon=True)

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def start(self) -> None:
        """Begin, and wait until no change is missed.

        Raises:
            ManagerUnavailable: the manager is gone, or too slow.
        """
        self._thread.start()
        if not self._began.wait(WATCH_DEADLINE_S) or self.is_over:
            raise ManagerUnavailable("the policy cannot be watched, so nothing is searched: search again")

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(UNWATCH_DEADLINE_S)

    def _run(self) -> None:
        try:
            with contextlib.suppress(Exception):  # What it could not end, the end of everything ends.
                self._watcher(self._own, self._stop, self._began.set)
        finally:
            self._over.set()
            if not self._stop.is_set():
                self._end()
            self._began.set()


def _unwatched() -> SearchFailed:
    return SearchFailed("unavailable", "the policy is not being watched any more: search again")


def _is_of_manager(error: SearchFailed) -> bool:
    """Whether the search failed because the manager is gone."""
    return error.reason == "manager_stopped" or isinstance(error.__cause__, ManagerUnavailable)
