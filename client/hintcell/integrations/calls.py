"""What adapters share: searches that end with whoever asked for them, and the best documents with their texts.

Knows no framework.
"""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins

from hintcell.searches import Hit, Results, Searches, SearchFailed

# A retriever reads its documents in pages of this many, and a permission that changes in between ends it.
PAGE_LIMIT: Final = 100


class Opened:
    """The searches that one run has opened: after `end` there are none, whatever was still under way."""

    def __init__(self, searches: Searches) -> None:
        self._searches = searches
        self._lock = threading.Lock()
        self._principals: dict[str, str] = {}
        self._is_over = False

    def search(self, principal: str, query: str, globs: Sequence[str], limit: int) -> Results:
        """As `Searches.search`.

        Raises:
            SearchFailed: it cannot be done, or nobody waits for it any more.
        """
        results = self._searches.search(principal, query, globs=globs, limit=limit)
        with self._lock:
            if not self._is_over:
                self._principals[results.session] = principal
                return results
        self._searches.close_search(principal, results.session)
        raise SearchFailed("completed", "this search is over: nobody waits for it any more")

    def close_search(self, principal: str, session: str) -> bool:
        """As `Searches.close_search`."""
        with self._lock:
            self._principals.pop(session, None)
        return self._searches.close_search(principal, session)

    def end(self) -> None:
        """Close all that are open; one that is being opened closes itself."""
        with self._lock:
            self._is_over = True
            principals = dict(self._principals)
            self._principals.clear()
        for session, principal in principals.items():
            self._searches.close_search(principal, session)


async def search(searches: Searches, principal: str, query: str, globs: Sequence[str], limit: int) -> Results:
    """As `Searches.search`, for asyncio; cancelled, it leaves no session."""
    opened = Opened(searches)
    try:
        return await asyncio.to_thread(opened.search, principal, query, globs, limit)
    except BaseException:
        opened.end()
        raise


def as_data(results: Results) -> dict[str, Any]:
    """A page as what any framework can store: `msgspec.convert(data, Results)` makes it a page again."""
    data: dict[str, Any] = to_builtins(results)
    return data


class Found(Struct, frozen=True):
    """A document that was found.

    Attributes:
        hit: where it is.
        text: of the document.
        snapshot_id: what was searched.
    """

    hit: Hit
    text: str
    snapshot_id: str

    def metadata(self) -> dict[str, Any]:
        """All but the text, as frameworks keep it beside a text."""
        hit = self.hit
        return {
            "id": hit.id,
            "path": hit.path,
            "line": hit.line,
            "name": hit.name,
            "rank": hit.rank,
            "score": hit.score,
            "snapshot_id": self.snapshot_id,
        }


def best(searches: Searches, principal: str, query: str, globs: Sequence[str], k: int) -> list[Found]:
    """The best `k` documents, or as many as there are. Its session is closed when this returns.

    Raises:
        SearchFailed: they cannot be given, or may not be read any more: then none is given.
    """
    with searches.searching(principal, query, globs=globs, limit=min(k, PAGE_LIMIT)) as results:
        session, snapshot_id = results.session, results.snapshot_id
        hits = list(results.hits)
        while len(hits) < k and results.next_cursor is not None:
            limit = min(k - len(hits), PAGE_LIMIT)
            results = searches.read(principal, session, results.next_cursor, limit=limit)
            hits += results.hits
        return [Found(hit, searches.text_of(principal, session, hit.id), snapshot_id) for hit in hits]


def check_k(k: int) -> None:
    """Raise ValueError unless `k` is a number of documents."""
    if k < 1:
        raise ValueError(f"k is {k}: ask for at least 1 document")


def named(principal: object, how: str) -> str:
    """The principal, if one is named.

    Args:
        principal: what the application gave.
        how: what it shall do instead of giving nothing.

    Raises:
        ValueError: it named nobody.
    """
    if not isinstance(principal, str) or not principal.strip():
        raise ValueError(f"nobody is named who asks: {how}")
    return principal
