"""Sessions as a client has them, for measuring: opened, looked at, closed, and gone before anything else starts."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, overload

import psutil

from bench.corpus import PAGE, QUERY, Corpus
from hintcell import Client, Document, Session

POLICIES: Final = {"plain": False, "hints": True}
"""The name of each policy in the figures, and its `identifier_hints`."""

# A worker that has answered waits for input in a moment, and one whose client left is gone in a moment; a template that
# loads first takes ten seconds at worst.
_DEADLINE_S: Final = 30.0


class NotMeasurableError(Exception):
    """A process does not do what a measurement waits for."""


@dataclass(frozen=True)
class MemoryBytes:
    """One look at a process."""

    rss: int
    pss: int
    uss: int
    peak_rss: int


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


def opened(
    client: Client, corpus: Corpus, *, hints: bool, query: str = QUERY, documents: Sequence[Document] | None = None
) -> Session:
    """A session over the corpus, or over `documents` that stand for it; what a first page takes begins here."""
    return client.open(
        client.grant("bench"),
        snapshot_id=corpus.snapshot_id,
        query=query,
        documents=corpus.documents if documents is None else documents,
        limit=PAGE,
        identifier_hints=hints,
    )


def first_page_s(client: Client, corpus: Corpus, *, hints: bool, query: str = QUERY) -> float:
    """Seconds from asking for a grant to holding the first page; the worker is gone afterwards, off the clock."""
    started = time.perf_counter()
    with opened(client, corpus, hints=hints, query=query) as session:
        session.page()
        took_s = time.perf_counter() - started
    wait_until_gone(client, session.pid)
    return took_s


def worker_of_the_session(client: Client) -> int:
    """The process of the one session that the client has, once it runs."""
    _wait_until(lambda: [each.state for each in client.status().sessions] == ["running"], "its worker does not start")
    (session,) = client.status().sessions
    if session.pid is None:
        raise NotMeasurableError("the session has no process")
    return session.pid


def memory_of_the_session(client: Client) -> MemoryBytes:
    """The memory of the one session that the client has, when its worker waits for input."""
    pid = worker_of_the_session(client)
    wait_until_idle(pid)
    (session,) = client.status(full_memory=True).sessions
    memory = session.memory
    rss, pss, uss, peak = memory.rss_bytes, memory.pss_bytes, memory.uss_bytes, memory.peak_rss_bytes
    if rss is None or pss is None or uss is None or peak is None:
        raise NotMeasurableError(f"the memory of process {pid} cannot be measured: {memory.state}")
    return MemoryBytes(rss, pss, uss, peak)


def wait_until_idle(pid: int) -> None:
    process = psutil.Process(pid)
    _wait_until(lambda: process.status() == psutil.STATUS_SLEEPING, f"process {pid} does not come to rest")


def wait_until_gone(client: Client, pid: int) -> None:
    """Return when the process exists no more and the manager has forgotten its session.

    A worker that is still ending would take time from whatever is measured next.
    """
    _wait_until(lambda: not exists(pid), f"process {pid} does not end")
    _wait_until(
        lambda: all(session.pid != pid for session in client.status().sessions),
        "the manager does not forget a session that was closed",
    )


def exists(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def _wait_until(is_true: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + _DEADLINE_S
    while not is_true():
        if time.monotonic() > until:
            raise NotMeasurableError(f"{otherwise} within {_DEADLINE_S:g} s")
        time.sleep(0.001)
