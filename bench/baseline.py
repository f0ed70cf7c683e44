"""The figures that later work is compared with: first page, page turn and memory of a session.

`python -m bench.baseline` prints them as JSON, for both policies. What a figure means:

* cold first page: from calling `Client()` to holding the first page: a manager and its template are started.
* first page: from calling `Client.open` to holding the first page, with a template that has loaded everything. It
  contains encoding and sending the documents, the fork, and the ranking.
* page turn: `Session.page` with a cursor, for every page after the first.
* memory before the first page: the worker was admitted and waits for its request, of which it has no byte.
* memory after it: the page was read, and the worker waits for a continuation.
* peak: the kernel's high-water mark of RSS (VmHWM), at the session's last page.
"""

import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Final, overload

import psutil

from hintcell import Client, Document
from hintcell.catalog import Catalog, Progress, build_from_packages
from hintcell_worker.protocol import Limits

PACKAGES: Final = ("sklearn", "scipy", "numpy")
QUERY: Final = "minimize a function with bounds"
PAGE: Final = 20
WARM_SESSIONS: Final = 5

# The policy that splits identifiers needs room for the spaces that it puts in, 0.3 % with these packages: a catalog
# filled to the last byte would be out of its scope.
KEPT_FREE: Final = Limits().max_text_bytes // 64

# A worker that has answered waits for input in a moment; a template that loads first takes ten seconds at worst.
_IDLE_DEADLINE_S: Final = 30.0


class NotMeasurableError(Exception):
    """A process does not do what a measurement waits for."""


@dataclass(frozen=True)
class MemoryBytes:
    """One look at a process."""

    rss: int
    pss: int
    uss: int
    peak_rss: int


@dataclass(frozen=True)
class Baseline:
    """The figures of one policy."""

    policy: str
    first_page_s: list[float]
    page_turn_s: list[float]
    before_first_page: MemoryBytes
    after_first_page: MemoryBytes
    after_last_page: MemoryBytes

    @property
    def first_page_median_s(self) -> float:
        return statistics.median(self.first_page_s)

    @property
    def page_turn_median_s(self) -> float:
        return statistics.median(self.page_turn_s)


class DocumentsAfter(Sequence[Document]):
    """Documents, and something that is done before they are first read.

    `Client.open` reads them while its worker is forked, and sends nothing before: the moment to wait for that worker
    and to look at it when it holds nothing yet.
    """

    def __init__(self, documents: Sequence[Document], first: Callable[[], None]) -> None:
        self._documents = documents
        self._first = first

    def __iter__(self) -> Iterator[Document]:
        self._first()
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)

    @overload
    def __getitem__(self, index: int) -> Document: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Document]: ...
    def __getitem__(self, index: int | slice) -> Document | Sequence[Document]:
        return self._documents[index]


def build_catalog(progress: Progress | None = None) -> Catalog:
    """As many functions of PACKAGES as fit."""
    return build_from_packages(
        PACKAGES, limits=Limits(max_text_bytes=Limits().max_text_bytes - KEPT_FREE), fit=True, progress=progress
    )


def memory_of_the_session(client: Client) -> MemoryBytes:
    """The memory of the one session that the client has, when its worker waits for input."""
    _wait_until(lambda: [each.state for each in client.status().sessions] == ["running"], "its worker does not start")
    (session,) = client.status().sessions
    if session.pid is None:
        raise NotMeasurableError("the session has no process")
    _wait_until_idle(session.pid)
    (session,) = client.status(full_memory=True).sessions
    memory = session.memory
    rss, pss, uss, peak = memory.rss_bytes, memory.pss_bytes, memory.uss_bytes, memory.peak_rss_bytes
    if rss is None or pss is None or uss is None or peak is None:
        raise NotMeasurableError(f"the memory of process {session.pid} cannot be measured: {memory.state}")
    return MemoryBytes(rss, pss, uss, peak)


def first_page_s(client: Client, catalog: Catalog, *, identifier_hints: bool) -> float:
    """How long a session's first page takes; the session is gone afterwards."""
    started = time.perf_counter()
    with client.open(
        client.grant("bench"),
        snapshot_id=catalog.snapshot_id,
        query=QUERY,
        documents=catalog.documents,
        limit=PAGE,
        identifier_hints=identifier_hints,
    ) as session:
        session.page()
        took_s = time.perf_counter() - started
    _wait_until_none_is_left(client)
    return took_s


def measure(client: Client, catalog: Catalog, *, identifier_hints: bool) -> Baseline:
    """The figures of one policy, from a client that has had a session and has none open."""
    warm_s = [first_page_s(client, catalog, identifier_hints=identifier_hints) for _ in range(WARM_SESSIONS)]
    before: list[MemoryBytes] = []
    with client.open(
        client.grant("bench"),
        snapshot_id=catalog.snapshot_id,
        query=QUERY,
        documents=DocumentsAfter(catalog.documents, lambda: before.append(memory_of_the_session(client))),
        limit=PAGE,
        identifier_hints=identifier_hints,
    ) as session:
        page = session.page()
        after_first_page = memory_of_the_session(client)
        page_turn_s: list[float] = []
        while page.next_cursor is not None:
            started = time.perf_counter()
            page = session.page(page.next_cursor)
            page_turn_s.append(time.perf_counter() - started)
        after_last_page = memory_of_the_session(client)
    _wait_until_none_is_left(client)
    return Baseline(page.policy, warm_s, page_turn_s, before[0], after_first_page, after_last_page)


def _wait_until_idle(pid: int) -> None:
    process = psutil.Process(pid)
    _wait_until(lambda: process.status() == psutil.STATUS_SLEEPING, f"process {pid} does not come to rest")


def _wait_until_none_is_left(client: Client) -> None:
    """A worker that is still ending would take time from the next."""
    _wait_until(lambda: not client.status().sessions, "a session that was closed does not end")


def _wait_until(is_true: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + _IDLE_DEADLINE_S
    while not is_true():
        if time.monotonic() > until:
            raise NotMeasurableError(f"{otherwise} within {_IDLE_DEADLINE_S:g} s")
        time.sleep(0.001)


def main() -> int:
    catalog = build_catalog()
    started = time.perf_counter()
    with Client() as client:
        first_page_s(client, catalog, identifier_hints=False)
        cold_s = time.perf_counter() - started
        baselines = [measure(client, catalog, identifier_hints=hints) for hints in (False, True)]
    versions = {name: metadata.version(name) for name in ("hintcell", "scikit-learn", "scipy", "numpy")}
    report = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": psutil.cpu_count(),
        "versions": versions,
        "functions": len(catalog.documents),
        "text_bytes": catalog.text_bytes,
        "query": QUERY,
        "page": PAGE,
        "cold_first_page_s": cold_s,
        "baselines": [asdict(baseline) for baseline in baselines],
    }
    json.dump(report, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
