"""Searches by handle: what an agent's tools need, whichever framework calls them.

A tool's caller cannot hold an object, so each search has a handle, and a page is asked for by handle and cursor.
Everything here may be called from any thread and blocks; with asyncio, call it through `asyncio.to_thread`.

Order of things in a search: the grant first, then the snapshot of what the principal may read, then the session. So
a permission that changes in between ends in a refusal, and the search is tried once more.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, Self

from msgspec import Struct, field

from hintcell.catalog.model import Location
from hintcell.client import Client
from hintcell.conversation import Page
from hintcell.errors import HintcellError, ManagerUnavailable, OpenRefused, RequestRejected, SessionEnded
from hintcell.search_table import ClosedTableError, End, NoPlaceError, SearchTable
from hintcell.session import Session
from hintcell_worker.protocol import MAX_PAGE_LIMIT, MAX_QUERY_BYTES, Document, Limits, utf8_length

__all__ = ["CatalogSource", "Documents", "Hit", "Results", "SearchFailed", "Searches", "Snapshot"]

# A tool call asks for a few pages, or comes back to an earlier search; more than this are forgotten ones.
MAX_SESSIONS: Final = 16
# Longer than a search of a large folder takes.
PLACE_WAIT_S: Final = 60.0

# What the model shall do about an end, after the end's own words.
_ADVICE: Final = "search again"


class Snapshot(Protocol):
    """What a principal may read now; `hintcell.catalog.Catalog` is one, and `Documents` the simplest."""

    @property
    def snapshot_id(self) -> str:
        """Names what was read, 1..128 bytes."""
        ...

    @property
    def documents(self) -> Sequence[Document]:
        """All of it, with unique ids."""
        ...

    @property
    def locations(self) -> Mapping[str, Location]:
        """Where documents stand, by id; those that stand nowhere may be missing."""
        ...

    @property
    def left_out(self) -> Mapping[str, int]:
        """How much of what was asked for is not there, by reason."""
        ...


class Documents(Struct, frozen=True):
    """A snapshot of documents from anywhere; see `Snapshot`.

    Attributes:
        snapshot_id: names what was read, 1..128 bytes.
        documents: all of it, with unique ids.
        locations: where documents stand, by id; may be left out.
        left_out: how much of what was asked for is not there, by reason; may be left out.
    """

    snapshot_id: str
    documents: Sequence[Document]
    locations: Mapping[str, Location] = field(default_factory=dict[str, Location])
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])


CatalogSource = Callable[[str, Sequence[str]], Snapshot]
"""Given a principal and globs to narrow by (as in a `.gitignore` file; none: everything), what it may read now.

It is called after the grant was taken. What it may not read must not be in the result, nor be counted there. A
HintcellError that it raises is told to the caller as it stands.
"""


class Hit(Struct, frozen=True):
    """One document of a page; never its text.

    Attributes:
        rank: place in the order in which to look, from 1.
        id: the document's.
        path: of its file; empty if it stands in none.
        line: its first line, from 1; 0 if it stands in no file.
        name: qualified, or empty.
        score: BM25, whatever the order was made from; 0 for what matches nothing.
    """

    rank: int
    id: str
    path: str
    line: int
    name: str
    score: float


class Results(Struct, frozen=True):
    """One page of a search.

    Attributes:
        session: the handle to read on with.
        hits: best first; a document that matches nothing comes after all that do.
        total: documents in the whole ranking.
        next_cursor: where the next page starts; None on the last one.
        snapshot_id: what was searched.
        left_out: what was not, by reason.
    """

    session: str
    hits: list[Hit]
    total: int
    next_cursor: str | None
    snapshot_id: str
    left_out: dict[str, int]


class SearchFailed(HintcellError):
    """A search or a page that cannot be given; the message is for whoever called the tool.

    Attributes:
        reason: `bad_argument`; `no_catalog`, the source of catalogs gave none; `unknown_session`; `busy`, as many
            searches as may be open are in use; `refused`, by the manager; `unavailable`, it is gone, or the searches
            were closed; `evicted`, it made room for newer ones; or why the session ended, as in SessionEnded.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _Search:
    """One search whose session was open when it was last used; see `search_table.Owned`."""

    def __init__(self, principal: str, session: Session, snapshot: Snapshot) -> None:
        self.principal = principal
        self.session = session
        self.snapshot = snapshot
        self.cursors: set[str] = set()

    @property
    def handle(self) -> str:
        return self.session.id

    def results(self, page: Page) -> Results:
        if page.next_cursor is not None:
            self.cursors.add(page.next_cursor)
        locations = self.snapshot.locations
        nowhere = Location("", 0, "")
        return Results(
            session=self.session.id,
            hits=[
                Hit(
                    candidate.inspection_rank,
                    candidate.candidate_id,
                    (place := locations.get(candidate.candidate_id, nowhere)).path,
                    place.line,
                    place.name,
                    candidate.bm25_score,
                )
                for candidate in page.candidates
            ],
            total=page.total,
            next_cursor=page.next_cursor,
            snapshot_id=page.snapshot_id,
            left_out={str(reason): number for reason, number in self.snapshot.left_out.items()},
        )


class Searches:
    """Open searches, each known by its handle to the principal that asked for it, and to nobody else.

    How long an unused one is kept is the manager's to say (`ManagerOptions.idle_timeout_s`).
    """

    def __init__(
        self,
        client: Client,
        catalog: CatalogSource,
        *,
        labels: Sequence[str] = (),
        identifier_hints: bool = False,
        limits: Limits | None = None,
        max_sessions: int = MAX_SESSIONS,
        open_wait_s: float = PLACE_WAIT_S,
    ) -> None:
        """Search what `catalog` gives, through `client`, which stays the caller's to close.

        Args:
            client: opens the sessions.
            catalog: what a principal may read.
            labels: of every grant; a permission change can name them.
            identifier_hints: also rank by parts of identifiers; the first hit stays.
            limits: raised ones, as in `Client.open`.
            max_sessions: searches that one principal may have open, 16 by default; another one closes the longest
                unused.
            open_wait_s: seconds that another one waits while all of them are in use by other threads, 60 by default.
        """
        if max_sessions < 1:
            raise ValueError(f"max_sessions is {max_sessions}: allow at least 1")
        if not open_wait_s >= 0:
            raise ValueError(f"open_wait_s is {open_wait_s}: use 0 or more seconds")
        self._client = client
        self._catalog = catalog
        self._labels = labels
        self._identifier_hints = identifier_hints
        self._limits = limits
        self._max_sessions = max_sessions
        self._open_wait_s = open_wait_s
        evicted = End("evicted", f"this search is over: it made room for newer ones: {_ADVICE}")
        self._table = SearchTable[_Search](max_sessions, evicted)

    def search(self, principal: str, query: str, *, globs: Sequence[str] = (), limit: int = 20) -> Results:
        """Rank what the principal may read now, and give the first page.

        Args:
            principal: who asks.
            query: 1..8,192 bytes, not blank.
            globs: given to `catalog`, to narrow by; none takes all that may be read.
            limit: hits in the page, 1..4,096.

        Raises:
            SearchFailed: it cannot be done, and why.
        """
        with self._searched(principal, query, globs, limit) as search:
            return self._page(search, None, limit)

    @contextmanager
    def searching(
        self, principal: str, query: str, *, globs: Sequence[str] = (), limit: int = 20
    ) -> Generator[Results]:
        """As `search`, for as long as the block runs: within it no other search closes this one, and its end does.

        Raises:
            SearchFailed: as in `search`.
        """
        with self._searched(principal, query, globs, limit) as search:
            try:
                yield self._page(search, None, limit)
            finally:
                self.close_search(principal, search.handle)

    def read(self, principal: str, session: str, cursor: str, *, limit: int = 20) -> Results:
        """The page of an earlier search at one of its cursors.

        Args:
            principal: who asked for the search.
            session: its handle.
            cursor: the `next_cursor` of any of its results.
            limit: hits in the page, 1..4,096.

        Raises:
            SearchFailed: it cannot be given, and why. A cursor or limit that cannot be used does not end the search.
        """
        _check_limit(limit)
        with self._taken(principal, session) as search:
            if cursor not in search.cursors:
                raise SearchFailed("bad_argument", "this search gave no such cursor: use a next_cursor of its results")
            return self._page(search, cursor, limit)

    def text_of(self, principal: str, session: str, candidate_id: str) -> str:
        """The text of a document that a search has ranked, while the search is open.

        Raises:
            SearchFailed: the search is over, or ranked no such document.
        """
        with self._taken(principal, session) as search:
            self._page(search, None, 1)  # Whether its session is alive: the first page is kept by it.
            for document in search.snapshot.documents:
                if document.id == candidate_id:
                    return document.text
        raise SearchFailed("bad_argument", "this search has no document of that id: use the id of a hit")

    def close_search(self, principal: str, session: str) -> bool:
        """End a search and its process; False if it was over already, or never was this principal's."""
        end = End("completed", f"this search is over: it was closed: {_ADVICE}")
        search = self._table.end(principal, session, end)
        if search is None:
            return False
        search.session.close()
        return True

    def close(self) -> None:
        """End all searches; no other one is started."""
        _close(self._table.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _searched(self, principal: str, query: str, globs: Sequence[str], limit: int) -> Generator[_Search]:
        """A new search, in use within."""
        _check_principal(principal)
        _check_query(query)
        _check_limit(limit)
        try:
            with self._table.place(principal, self._open_wait_s):
                search = self._open(principal, query, globs, limit)
                try:
                    evicted = self._table.add(search)
                except ClosedTableError:
                    search.session.close()
                    raise
        except ClosedTableError:
            raise _closed() from None
        except NoPlaceError:
            in_use = f"{self._max_sessions} searches were in use for {self._open_wait_s:g} s"
            raise SearchFailed("busy", f"{in_use}, and no more may be: close one and {_ADVICE}") from None
        except SearchFailed as error:
            if self._table.is_closed:
                raise _closed() from error
            raise
        try:
            _close(evicted)
            yield search
        finally:
            _close(self._table.give_back(search))

    @contextmanager
    def _taken(self, principal: str, session: str) -> Generator[_Search]:
        """An earlier search, in use within."""
        taken = self._table.take(principal, session)
        if isinstance(taken, _Search):
            try:
                yield taken
            finally:
                _close(self._table.give_back(taken))
        elif self._table.is_closed:
            raise _closed()
        elif taken is None:
            raise SearchFailed("unknown_session", f"there is no such search: use the session of a result, or {_ADVICE}")
        else:
            raise SearchFailed(*taken)

    def _open(self, principal: str, query: str, globs: Sequence[str], limit: int) -> _Search:
        """A new session; a second one if permissions change while it is opened."""
        try:
            return self._open_once(principal, query, globs, limit)
        except OpenRefused as error:
            if error.reason != "permission_changed":
                raise SearchFailed("refused", f"no search was started: {error}") from error
        try:
            return self._open_once(principal, query, globs, limit)
        except OpenRefused as error:
            raise SearchFailed("refused", f"no search was started: {error}: {_ADVICE}") from error

    def _open_once(self, principal: str, query: str, globs: Sequence[str], limit: int) -> _Search:
        """A new session.

        Raises:
            OpenRefused: by the manager.
        """
        try:
            grant = self._client.grant(principal, self._labels)
            try:
                snapshot = self._catalog(principal, globs)
            except HintcellError as error:
                raise SearchFailed("no_catalog", str(error)) from error
            session = self._client.open(
                grant,
                snapshot_id=snapshot.snapshot_id,
                query=query,
                documents=snapshot.documents,
                limit=limit,
                identifier_hints=self._identifier_hints,
                limits=self._limits,
            )
        except (OpenRefused, SearchFailed):
            raise
        except SessionEnded as error:
            raise _over(error) from error
        except HintcellError as error:
            raise _unavailable(error) from error
        return _Search(principal, session, snapshot)

    def _page(self, search: _Search, cursor: str | None, limit: int) -> Results:
        try:
            page = search.session.page(cursor, limit)
        except SessionEnded as error:
            # A later call may learn a reason that is not known yet.
            raise self._failed(search, _over(error), is_over=error.reason != "unknown") from error
        except HintcellError as error:
            raise self._failed(search, _unavailable(error), is_over=True) from error
        return search.results(page)

    def _failed(self, search: _Search, why: SearchFailed, *, is_over: bool) -> SearchFailed:
        """What to say; a search that is over is taken out, unless it was closed here and that is known."""
        if is_over:
            self._table.end(search.principal, search.handle, End(why.reason, str(why)))
            search.session.close()
        return _closed() if self._table.is_closed else why


def _close(searches: Iterable[_Search]) -> None:
    for search in searches:
        search.session.close()


def _closed() -> SearchFailed:
    return SearchFailed("unavailable", "searching is over here: this was closed")


def _over(error: SessionEnded) -> SearchFailed:
    if isinstance(error, RequestRejected):
        return SearchFailed(error.reason, f"the search was rejected: {error.message}")
    said = f" ({error.message})" if error.message else ""
    return SearchFailed(error.reason, f"this search has ended: {error.reason}{said}: {_ADVICE}")


def _unavailable(error: HintcellError) -> SearchFailed:
    advice = "" if isinstance(error, ManagerUnavailable) else f": {_ADVICE}"
    return SearchFailed("unavailable", f"the search cannot be served: {error}{advice}")


def _check_principal(principal: str) -> None:
    if not principal.strip():
        raise SearchFailed("bad_argument", "nobody is named who asks: give a principal")


def _check_query(query: str) -> None:
    if not query.strip():
        raise SearchFailed("bad_argument", "the query is blank: give at least one word")
    try:
        size = utf8_length(query)
    except UnicodeEncodeError:
        raise SearchFailed("bad_argument", "the query is not valid Unicode: leave out unpaired surrogates") from None
    if size > MAX_QUERY_BYTES:
        raise SearchFailed("bad_argument", f"the query has {size:,} bytes: use at most {MAX_QUERY_BYTES:,}")


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_PAGE_LIMIT:
        raise SearchFailed("bad_argument", f"limit is {limit}: use 1 to {MAX_PAGE_LIMIT:,}")
