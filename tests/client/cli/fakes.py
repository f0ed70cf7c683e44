"""A client whose sessions answer what they were made with, in the place of `hintcell.cli.search.Client`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import msgspec
import pytest

from hintcell import Candidate, Document, Grant, HintcellError, Page
from hintcell.catalog import Catalog, Location
from hintcell.cli import search

Ranking = Sequence[tuple[str, float]]


class FakeSession:
    id = "5e55"
    pid = 4711

    def __init__(self, ranking: Ranking, policy: str, limit: int) -> None:
        self._ranking = ranking
        self._policy = policy
        self._limit = limit

    def page(self) -> Page:
        return next(iter(self))

    def __iter__(self) -> Iterator[Page]:
        total = len(self._ranking)
        for offset in range(0, total, self._limit):
            end = min(offset + self._limit, total)
            yield Page(
                candidates=tuple(
                    Candidate(name, rank, score)
                    for rank, (name, score) in enumerate(self._ranking[offset:end], offset + 1)
                ),
                total=total,
                offset=offset,
                next_cursor=f"at {end}" if end < total else None,
                policy=self._policy,
                snapshot_id="s",
                ranking_sha256="0",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class FakeClient:
    """Notes what it is asked, and opens sessions with one ranking."""

    def __init__(
        self,
        ranking: Ranking = (),
        *,
        policy: str = "bm25_complete",
        fails: HintcellError | None = None,
        on_grant: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory: str | None = None
        self.grants: list[Grant] = []
        self.documents: Sequence[Document] = ()
        self.opened: dict[str, object] = {}
        self.names = [name for name, _ in ranking]
        self._ranking = ranking
        self._policy = policy
        self._fails = fails
        self._on_grant = on_grant

    def __call__(self, directory: str | None = None) -> Self:
        self.directory = directory
        return self

    def grant(self, principal: str, labels: Sequence[str] = ()) -> Grant:
        self._on_grant()
        self.grants.append(Grant(principal, tuple(labels), "m", 0))
        return self.grants[-1]

    def open(self, grant: Grant, *, documents: Sequence[Document], limit: int, **others: object) -> FakeSession:
        if self._fails is not None:
            raise self._fails
        self.documents = documents
        self.opened = others | {"grant": grant, "limit": limit}
        return FakeSession(self._ranking, self._policy, limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def put_in_place(monkeypatch: pytest.MonkeyPatch, client: "FakeClient") -> None:
    """Have the command use this client, and know where its candidates are from."""
    parts = {name: name.rsplit(":", 2) for name in client.names}
    places = {name: Location(path, int(line), last) for name, (path, line, last) in parts.items()}
    make = search._catalog

    def with_places(*arguments: Any, **options: Any) -> Catalog:
        catalog = make(*arguments, **options)
        return msgspec.structs.replace(catalog, locations={**catalog.locations, **places})

    monkeypatch.setattr(search, "_catalog", with_places)
    monkeypatch.setattr(search, "Client", client)
