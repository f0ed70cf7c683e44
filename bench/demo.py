"""`make demo`: one search on real source code, from the catalog to the end that a permission change makes of it.

A story of numbered steps for a person to follow. Every figure that it prints is measured in that run; what the
figures of step 8 mean is written at `Warm`. Exit status 0 if everything went as told, else 1.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from rich.console import Console
from rich.text import Text

from bench.corpus import PACKAGES, PAGE, QUERY, TEXT_BYTES, Corpus
from bench.sessions import (
    DocumentsAfter,
    MemoryBytes,
    NotMeasurableError,
    first_page_s,
    memory_of_the_session,
    opened,
    wait_until_gone,
)
from hintcell import Client, Grant, HintcellError, OpenRefused, Page, Session, SessionEnded
from hintcell.catalog import Catalog, CatalogError, Reason, build_from_packages
from hintcell.cli import table
from hintcell.cli.candidates import row_of
from hintcell_worker.protocol import Limits

_T = TypeVar("_T")

_WIDTH: Final = 80
_INDENT: Final = "   "
_ROWS: Final = 10
_WARM_SESSIONS: Final = 5
_TITLE: Final = "hintcell: one search, end to end, on real code"

# The worker is dead when `permission_changed` returns; that its parent has also forgotten its pid takes a moment more.
_GONE_DEADLINE_S: Final = 1.0


class NotAsPromisedError(Exception):
    """The demonstration shows something that must not be."""


@dataclass(frozen=True)
class Warm:
    """Sessions of one policy, from a template that has loaded everything.

    Attributes:
        policy: as the page names it.
        first_page_s: median seconds from asking for a grant to holding the first page: encoding and sending the
            documents, the fork and the ranking are in it.
        page_turn_s: seconds of each page after the first, of one session.
        before_first_page: the worker was admitted and waits for its request, of which it has no byte.
        after_first_page: the page was read, and the worker waits for a continuation.
        after_last_page: likewise, at the end; its peak is the kernel's high-water mark of RSS (VmHWM).
    """

    policy: str
    first_page_s: float
    page_turn_s: list[float]
    before_first_page: MemoryBytes
    after_first_page: MemoryBytes
    after_last_page: MemoryBytes


class Story:
    """Prints numbered steps, in at most 80 columns."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._console.width = min(_WIDTH, self._console.width) if self._console.is_terminal else _WIDTH
        self._step = 0

    def title(self, text: str, below: str) -> None:
        self._console.print(Text(text, style="bold"))
        self._console.print(below)

    def step(self, sentence: str) -> None:
        """One sentence about what happens next, before it happens."""
        self._step += 1
        self._console.print()
        self._wrap(Text(sentence, style="bold"), f"{self._step}. ")
        self._console.file.flush()

    def says(self, text: str) -> None:
        self._wrap(Text(text), _INDENT)

    def gap(self) -> None:
        self._console.print()

    def rows(self, page: Page, catalog: Catalog) -> None:
        """The page's candidates as `hintcell search` shows them."""
        rows = [row_of(candidate, catalog.locations) for candidate in page.candidates]
        width = self._console.width - len(_INDENT)
        columns = table.Columns.for_rows(rows, width)
        self._console.print()
        for line in [table.heading(columns), *table.wide(rows, columns, width)]:
            self._console.print(Text(_INDENT) + line)

    def grid(self, heading: list[str], rows: list[list[str]]) -> None:
        """Rows of figures; the first column is their name."""
        self._console.print()
        lines = [heading, *rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
        for number, line in enumerate(lines):
            cells = [
                f"{line[0]:<{widths[0]}}",
                *(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True)),
            ]
            self._console.print(Text(_INDENT + "  ".join(cells).rstrip(), style="" if number else "dim"))

    def _wrap(self, text: Text, start: str) -> None:
        for line in text.wrap(self._console, self._console.width - len(start)):
            line.rstrip()
            self._console.print(Text(start) + line)
            start = " " * len(start)


def main() -> int:
    story = Story()
    started = time.perf_counter()
    try:
        tell(story)
    except (HintcellError, CatalogError, NotMeasurableError, NotAsPromisedError) as error:
        print(f"\nThe demonstration failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    story.gap()
    story.says(f"The whole demonstration took {time.perf_counter() - started:.0f} s.")
    return 0


def tell(story: Story) -> None:
    story.title(_TITLE, "Every figure below was measured in this run.")
    catalog = _read_functions(story)
    story.step("Start a manager, and take a grant for alice before deciding what she may read.")
    started = time.perf_counter()
    with Client() as client:
        grant = client.grant("alice", labels=["package:numpy", "package:scipy", "package:sklearn"])
        story.says(f"The manager is process {client.manager_pid}. The grant says: asked at epoch {grant.epoch}.")
        template_pid = _search(story, client, grant, catalog, started)
        _measure(story, client, catalog)
        pids = [client.manager_pid, template_pid]
        story.step("Close the client: its manager ends, and with it everything that it had started.")
    for pid in pids:
        _until_gone(pid)
    if client.directory.exists():
        raise NotAsPromisedError(f"{client.directory} was left behind")
    story.says(f"Manager {pids[0]} and template {pids[1]} are gone, and so is the directory with their sockets.")


def _read_functions(story: Story) -> Catalog:
    story.step("Read the Python functions of the installed scikit-learn, SciPy and NumPy.")
    started = time.perf_counter()
    files = 0

    def count(_done: int, total: int) -> None:
        nonlocal files
        files = total

    limits = Limits()
    catalog = build_from_packages(PACKAGES, limits=Limits(max_text_bytes=TEXT_BYTES), fit=True, progress=count)
    took_s = time.perf_counter() - started
    kept_free = limits.max_text_bytes - TEXT_BYTES
    over = catalog.left_out.get(Reason.OVER_LIMITS, 0)
    story.says(
        f"{files:,} files in {took_s:.1f} s. A snapshot holds at most {limits.max_documents:,} functions and "
        f"{limits.max_text_bytes:,} bytes of text, of which {kept_free:,} are kept free for step 8. All files take "
        f"turns until it is full: {len(catalog.documents):,} functions with {catalog.text_bytes:,} bytes; "
        f"{over:,} more do not fit."
    )
    return catalog


def _search(story: Story, client: Client, grant: Grant, catalog: Catalog, started: float) -> int:
    """The session from its first page to its end; returns the pid of the template."""
    story.step(f'Open a session: a worker process for one query, "{QUERY}".')
    looks: list[tuple[str, MemoryBytes]] = []
    looking_s = 0.0

    def look(when: str) -> None:
        nonlocal looking_s
        before = time.perf_counter()
        looks.append((when, memory_of_the_session(client)))
        looking_s += time.perf_counter() - before

    with client.open(
        grant,
        snapshot_id=catalog.snapshot_id,
        query=QUERY,
        documents=DocumentsAfter(catalog.documents, lambda: look("admitted, no request yet")),
        limit=_ROWS,
    ) as session:
        first = session.page()
        cold_s = time.perf_counter() - started - looking_s
        story.says(
            f"The worker is process {session.pid}. Its first page came {cold_s:.2f} s after step 2 began, cold: the "
            "manager and its template, which loads scikit-learn once for all workers, were started in that time."
        )
        story.rows(first, catalog)
        look("after the first page")
        story.step("Turn the page: the ranking is there, so this is quick.")
        second, took_s = _timed(lambda: session.page(first.next_cursor))
        last = second.offset + len(second.candidates)
        story.says(f"{_ms(took_s)} for ranks {second.offset + 1} to {last} of {second.total:,}.")
        story.rows(second, catalog)
        look("after the second page")

        story.step(f"Look at the memory of process {session.pid} as the kernel counts it.")
        story.grid(
            ["MiB", "RSS", "PSS", "USS", "peak RSS"],
            [[when, *map(_plain_mib, (memory.rss, memory.pss, memory.uss, memory.peak_rss))] for when, memory in looks],
        )
        story.gap()
        story.says(
            "RSS counts the libraries that every worker shares with the template it was forked from; USS is what this "
            "session alone costs, and what its end gives back."
        )
        template_pid = client.status().template_pid
        if template_pid is None:
            raise NotAsPromisedError("no template runs")
        _revoke(story, client, grant, catalog, session, second)
    return template_pid


def _revoke(story: Story, client: Client, grant: Grant, catalog: Catalog, session: Session, last: Page) -> None:
    story.step("Alice may no longer read SciPy: say so, and her session's process is killed.")
    report, took_s = _timed(lambda: client.permission_changed(principal="alice", labels=["package:scipy"]))
    gone_s = _until_gone(session.pid)
    ended = {one.session_id: one for one in report.ended}.get(session.id)
    if ended is None:
        raise NotAsPromisedError("the session was not ended")
    story.says(
        f"permission_changed() returned after {_ms(took_s)}: {len(report.ended)} session ended, its process seen dead "
        f"{_ms(ended.died_after_s)} after the manager had heard of the change."
    )
    story.says(f"os.kill({session.pid}, 0): no such process ({_ms(gone_s)} after the return).")

    story.step("Ask the session for its next page, and ask for a new session under the old grant.")
    try:
        session.page(last.next_cursor)
    except SessionEnded as end:
        story.says(f"Page: refused, {end}.")
    else:
        raise NotAsPromisedError("a page was delivered after the permission had changed")
    try:
        client.open(grant, snapshot_id=catalog.snapshot_id, query=QUERY, documents=catalog.documents).close()
    except OpenRefused as refusal:
        story.says(f"Session: refused, {refusal.reason}: {refusal}.")
    else:
        raise NotAsPromisedError("a session was opened under an outdated grant")


def _measure(story: Story, client: Client, catalog: Catalog) -> None:
    story.step("Measure warm sessions, with the ranking of whole words and with that of names split into parts.")
    plain, split = (_warm(client, catalog, hints=hints) for hints in (False, True))
    figures: list[tuple[str, Callable[[Warm], str]]] = [
        (f"first page, median of {_WARM_SESSIONS} sessions", lambda warm: _ms(warm.first_page_s)),
        (
            f"page turn, median of {len(plain.page_turn_s)} pages of {PAGE}",
            lambda warm: _ms(statistics.median(warm.page_turn_s)),
        ),
        ("USS before the request", lambda warm: _mib(warm.before_first_page.uss)),
        ("USS after the first page", lambda warm: _mib(warm.after_first_page.uss)),
        ("USS after the last page", lambda warm: _mib(warm.after_last_page.uss)),
        ("peak RSS", lambda warm: _mib(warm.after_last_page.peak_rss)),
    ]
    story.grid(["", "whole words", "and parts"], [[name, figure(plain), figure(split)] for name, figure in figures])
    story.gap()
    story.says(f"Policies: {plain.policy} and {split.policy}.")


def _warm(client: Client, catalog: Catalog, *, hints: bool) -> Warm:
    searched = Corpus(catalog.snapshot_id, list(catalog.documents), catalog.text_bytes)
    first_s = [first_page_s(client, searched, hints=hints) for _ in range(_WARM_SESSIONS)]
    before: list[MemoryBytes] = []
    documents = DocumentsAfter(searched.documents, lambda: before.append(memory_of_the_session(client)))
    with opened(client, searched, hints=hints, documents=documents) as session:
        page = session.page()
        after_first_page = memory_of_the_session(client)
        turns: list[float] = []
        while page.next_cursor is not None:
            page, took_s = _timed(partial(session.page, page.next_cursor))
            turns.append(took_s)
        after_last_page = memory_of_the_session(client)
    wait_until_gone(client, session.pid)
    return Warm(page.policy, statistics.median(first_s), turns, before[0], after_first_page, after_last_page)


def _until_gone(pid: int) -> float:
    """Seconds until no process has this pid.

    Raises:
        NotAsPromisedError: one still has it after _GONE_DEADLINE_S.
    """
    started = time.perf_counter()
    while time.perf_counter() - started < _GONE_DEADLINE_S:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return time.perf_counter() - started
    raise NotAsPromisedError(f"process {pid} still exists")


def _timed(call: Callable[[], _T]) -> tuple[_T, float]:
    started = time.perf_counter()
    return call(), time.perf_counter() - started


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2g} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def _mib(size: int) -> str:
    return f"{_plain_mib(size)} MiB"


def _plain_mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


if __name__ == "__main__":
    sys.exit(main())
