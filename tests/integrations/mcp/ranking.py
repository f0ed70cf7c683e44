"""A ranking without a worker: pages and cursors as a worker makes them, and failures on demand."""

import base64
import hashlib
from collections.abc import Sequence

from hintcell.searches import Hit, Results, SearchFailed


class Ranking:
    """A `Source` over hits that are given; there is one search, and its session is called `s`."""

    def __init__(self, hits: Sequence[Hit], left_out: dict[str, int] | None = None) -> None:
        self.hits = list(hits)
        self.left_out = left_out or {}
        self.failure: Exception | None = None
        self.asked: list[tuple[object, ...]] = []
        self._digest = hashlib.sha256(repr(self.hits).encode()).hexdigest()
        self._cursors: dict[str, int] = {}

    def search(self, query: str, globs: Sequence[str], limit: int) -> Results:
        self.asked.append((query, tuple(globs), limit))
        return self._page(0, limit)

    def read(self, session: str, cursor: str, limit: int) -> Results:
        self.asked.append((session, cursor, limit))
        if session != "s":
            raise SearchFailed("unknown_session", "there is no such search: search again")
        if cursor not in self._cursors:
            raise SearchFailed("bad_argument", "this search gave no such cursor")
        return self._page(self._cursors[cursor], limit)

    def close_search(self, session: str) -> bool:
        return session == "s"

    def _page(self, start: int, limit: int) -> Results:
        if self.failure is not None:
            raise self.failure
        end = start + limit
        cursor = self._cursor(end) if end < len(self.hits) else None
        return Results("s", self.hits[start:end], len(self.hits), cursor, "snapshot", self.left_out)

    def _cursor(self, offset: int) -> str:
        text = f'{{"v":1,"o":{offset},"h":"{self._digest}"}}'
        cursor = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        self._cursors[cursor] = offset
        return cursor


def hit(rank: int, path: str = "a/b.py", name: str = "Reader.read") -> Hit:
    return Hit(rank, f"{path}:{rank}:{name}", path, rank, name, 1.5 / rank)
