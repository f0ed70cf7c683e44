"""What an answer looks like, structured and as text, and how many hits fit into a budget of tokens.

Neither form holds text of a document: an agent has tools of its own to read a file at a line. Covers no protocol
and no session.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Annotated, Final, Protocol, Self

import msgspec
from pydantic import BaseModel, Field

from hintcell.searches import Results

# Of JSON in English and code, tokenizers make a token of three to five bytes.
BYTES_PER_TOKEN: Final = 4


class Hit(BaseModel):
    """One place to look at."""

    rank: Annotated[int, Field(description="Place in the ranking, from 1, the best.")]
    id: Annotated[str, Field(description="Names the hit within its snapshot.")]
    path: Annotated[str, Field(description="File, relative to the searched folder.")]
    line: Annotated[int, Field(description="Line of the function's name or the section's heading, from 1.")]
    name: Annotated[str, Field(description="Qualified name of the function or section.")]
    score: Annotated[float, Field(description="BM25 of the query; 0 if no word of it occurs.")]


class SearchPage(BaseModel):
    """One page of a ranking: where to look, never what stands there."""

    session: Annotated[str, Field(description="Names the search: pass it to more_results and close_search.")]
    total: Annotated[int, Field(description="Places in the whole ranking, also those that match nothing.")]
    next_cursor: Annotated[str | None, Field(description="Pass it to more_results; null on the last page.")]
    snapshot_id: Annotated[str, Field(description="Names what was searched; the same id, the same texts.")]
    hits: Annotated[list[Hit], Field(description="Best first.")]
    left_out: Annotated[dict[str, int], Field(description="What is in the folder but was not searched, by reason.")]

    @classmethod
    def of(cls, results: Results) -> Self:
        """The page that these results are."""
        return cls.model_validate(msgspec.to_builtins(results))

    def as_text(self) -> str:
        """One line for each hit, and one that says how to go on."""
        lines = [_place(hit) for hit in self.hits]
        ranks = f"{self.hits[0].rank}-{self.hits[-1].rank}" if self.hits else "none"
        lines.append(f"(ranks {ranks} of {self.total}; read the files at these lines with your own tools)")
        if self.left_out:
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.left_out.items())
            lines.append(f"(not searched: {reasons})")
        if self.next_cursor is not None:
            lines.append(f"(next page: more_results session={self.session} cursor={self.next_cursor})")
        return "\n".join(lines)

    def tokens(self) -> int:
        """About how many tokens the longer one of its two forms has: its bytes by BYTES_PER_TOKEN, rounded up."""
        size = max(len(self.model_dump_json().encode()), len(self.as_text().encode()))
        return -(-size // BYTES_PER_TOKEN)


def _place(hit: Hit) -> str:
    where = f"{hit.path}:{hit.line}" if hit.path else hit.id
    return f"{where} {hit.name}".rstrip()


class Source(Protocol):
    """Where pages come from: the searches of one principal."""

    def search(self, query: str, globs: Sequence[str], limit: int) -> Results:
        """A new search, and its first page."""
        ...

    def read(self, session: str, cursor: str, limit: int) -> Results:
        """The page of an earlier search at one of its cursors."""
        ...

    def close_search(self, session: str) -> bool:
        """End a search; False if there is none of that name."""
        ...


class Pages:
    """Pages of at most so many tokens, and of at least one hit, or there would be no going on.

    A cursor is made by the worker that ranks, for the hit after the last of a page. So a page is not cut: it is asked
    for again, with as many hits as fit.
    """

    def __init__(self, source: Source, token_budget: int | None) -> None:
        """Pages of what `source` finds; with None they are as long as asked for."""
        self._source = source
        self._budget = token_budget

    def search(self, query: str, globs: Sequence[str], limit: int) -> SearchPage:
        """A new search and its first page, of at most `limit` hits.

        Raises:
            SearchFailed: it cannot be done.
        """
        if self._budget is None:
            return SearchPage.of(self._source.search(query, globs, limit))
        # The first page of a session stays as it was opened, so it is opened with one hit, and the others are read on.
        first = SearchPage.of(self._source.search(query, globs, 1))
        if limit == 1 or first.next_cursor is None:
            return first
        return self._fitting(first.session, first.next_cursor, limit - 1, first)

    def read(self, session: str, cursor: str, limit: int) -> SearchPage:
        """The page of a search at a cursor, of at most `limit` hits.

        Raises:
            SearchFailed: it cannot be given.
        """
        return self._fitting(session, cursor, limit, None)

    def _fitting(self, session: str, cursor: str, limit: int, before: SearchPage | None) -> SearchPage:
        """As many hits at the cursor as fit, at most `limit`, after those before; if none fits, those before alone."""
        page = self._read(session, cursor, limit, before)
        if self._budget is None or page.tokens() <= self._budget:
            return page
        start = len(before.hits) if before is not None else 0
        least = 0 if before is not None else 1
        # A ranking is fixed, so fewer hits at the same cursor are the first of these. The cursor after them may be
        # longer than the one at hand by some bytes, hence the loop.
        count = self._most_that_fit(page, page.next_cursor or cursor, start, least)
        while count > 0:
            page = self._read(session, cursor, count, before)
            if count == least or page.tokens() <= self._budget:
                return page
            count -= 1
        return page if before is None else before

    def _read(self, session: str, cursor: str, limit: int, before: SearchPage | None) -> SearchPage:
        page = SearchPage.of(self._source.read(session, cursor, limit))
        if before is not None:
            page.hits = before.hits + page.hits
        return page

    def _most_that_fit(self, page: SearchPage, cursor: str, start: int, least: int) -> int:
        """How many hits after the first `start` of the page would fit, were this the cursor after them."""

        def is_over(count: int) -> bool:
            part = page.model_copy(update={"hits": page.hits[: start + count], "next_cursor": cursor})
            return self._budget is not None and part.tokens() > self._budget

        counts = range(least, len(page.hits) - start)
        return max(least, counts[0] + bisect_left(counts, True, key=is_over) - 1) if counts else least
