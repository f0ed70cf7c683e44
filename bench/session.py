"""All pages of one query: one session against repeated single requests, and what a session costs while it is held.

The protocol's other mode, a single request for one page, sends all documents again each time. Here each goes to a
worker that is newly forked from a warm template, the best that this mode can have; a cold worker is measured a few
times, to say what it would take.
"""

import time
from functools import partial
from typing import Final

import msgspec

from bench import corpus, goals, timing
from bench.corpus import PAGE, QUERY, Corpus
from bench.goals import MIB
from bench.results import Figure, Part, Plot, Series, Table
from bench.sessions import POLICIES, MemoryBytes, memory_of_the_session, opened, wait_until_gone
from bench.timing import quantile, spread
from bench.workers import Exchange, Template, a_template, cold
from hintcell import Client
from hintcell_worker.protocol import Request

_SESSIONS: Final = 15
_COLD_RUNS: Final = 3
_SESSIONS_S: Final = 40.0

# Published for the Go program that this protocol comes from, of 3,009 functions too, on an Apple M4 Pro: seconds of all
# single requests and of the session, bytes in, seconds to the first page, bytes of peak RSS.
_GO: Final = {
    "plain": (11.045, 0.072, 360_069_617, 2_405_664, 0.068, 33_505_280),
    "hints": (20.412, 0.138, 360_069_617, 2_405_664, 0.132, 40_992_768),
}


class Taken(msgspec.Struct):
    """What the sessions of one policy took, in seconds: to the first page, to the last, and for each turn."""

    first: list[float]
    all_pages: list[float]
    turns: list[float]
    looks: list[MemoryBytes]
    last_looks: list[MemoryBytes]


def measure(effort: float = 1.0) -> Part:
    searched = corpus.corpus()
    taken = _sessions(searched, effort)
    figures: list[Figure] = []
    for policy, took in taken.items():
        figures += figures_of(policy, took)
    table, more = _against_single_requests(searched, effort)
    return Part(
        "session",
        f"{len(searched.documents):,} functions with {searched.text_bytes:,} bytes, the query “{QUERY}”, every page of "
        f"{PAGE}. Times are those that a client sees, a page turn's from asking to the decoded page.",
        [*figures, *more],
        tables=[table],
        plots=[
            Plot(
                "Page turns",
                "microseconds",
                "share of the turns",
                [Series(policy, *_thinned([turn * 1e6 for turn in took.turns])) for policy, took in taken.items()],
                x_log=True,
                note="Of all sessions of a policy together. Further left is faster.",
            )
        ],
    )


def _sessions(searched: Corpus, effort: float) -> dict[str, Taken]:
    taken = {policy: Taken([], [], [], [], []) for policy in POLICIES}
    with Client() as client:
        for hints in POLICIES.values():
            _read_all(client, searched, Taken([], [], [], [], []), hints=hints)
        timing.alternating(
            {
                policy: partial(_read_all, client, searched, taken[policy], hints=hints)
                for policy, hints in POLICIES.items()
            },
            timing.rounds(_SESSIONS, effort),
            budget_s=_SESSIONS_S,
        )
        for policy, hints in POLICIES.items():
            for _ in range(timing.MIN_ROUNDS):
                _look(client, searched, taken[policy], hints=hints)
    return taken


def _read_all(client: Client, searched: Corpus, taken: Taken, *, hints: bool) -> float:
    """Read every page of one session; its worker is gone afterwards."""
    clock = time.perf_counter
    started = clock()
    with opened(client, searched, hints=hints) as session:
        page = session.page()
        before = clock()
        taken.first.append(before - started)
        while page.next_cursor is not None:
            page = session.page(page.next_cursor)
            now = clock()
            taken.turns.append(now - before)
            before = now
        taken.all_pages.append(before - started)
    wait_until_gone(client, session.pid)
    return before - started


def _look(client: Client, searched: Corpus, taken: Taken, *, hints: bool) -> None:
    """Look at the memory of a session after its first and after its last page."""
    with opened(client, searched, hints=hints) as session:
        page = session.page()
        taken.looks.append(memory_of_the_session(client))
        while page.next_cursor is not None:
            page = session.page(page.next_cursor)
        taken.last_looks.append(memory_of_the_session(client))
    wait_until_gone(client, session.pid)


def figures_of(policy: str, taken: Taken) -> list[Figure]:
    turns = [turn * 1e6 for turn in taken.turns]
    percentile = timing.Spread(quantile(turns, 0.99), None, None, len(turns))
    uss = spread([look.uss / MIB for look in taken.looks])
    last_uss = spread([look.uss / MIB for look in taken.last_looks])
    peak = spread([look.peak_rss / MIB for look in taken.last_looks])
    return [
        goals.figure(f"session: first page, {policy}", spread(taken.first).times(1_000), "ms"),
        goals.figure(f"session: all pages, {policy}", spread(taken.all_pages).times(1_000), "ms"),
        goals.figure(
            f"session: all pages against the first, {policy}", timing.ratio(taken.all_pages, taken.first), "×"
        ),
        goals.figure(f"session: page turn, {policy}, p50", spread(turns), "µs"),
        goals.figure(f"session: page turn, {policy}, p99", percentile, "µs"),
        goals.figure(f"session: USS after the first page, {policy}", uss, "MiB"),
        goals.figure(f"session: USS after the last page, {policy}", last_uss, "MiB"),
        goals.figure(f"session: peak RSS, {policy}", peak, "MiB"),
    ]


def _against_single_requests(searched: Corpus, effort: float) -> tuple[Table, list[Figure]]:
    request = msgspec.json.encode(Request(searched.snapshot_id, QUERY, searched.documents)) + b"\n"
    columns: list[list[str]] = []
    figures: list[Figure] = []
    with a_template() as template:
        for policy, hints in POLICIES.items():
            several = [template.session(request, hints=hints) for _ in range(timing.MIN_ROUNDS)]
            one = sorted(several, key=lambda exchange: exchange.took_s)[timing.MIN_ROUNDS // 2]
            pages = 1 + len(one.cursors)
            # A trial asks for every tenth page or so, and says it.
            every = max(1, round(1 / effort))
            singles = _singles(template, request, ["", *one.cursors][::every], hints=hints)
            single_s = sum(single.took_s for single in singles) * pages / len(singles)
            cold_s = spread([cold(request, hints=hints) for _ in range(_COLD_RUNS)]).median
            columns.append(
                [
                    f"{single_s:.2f} s" + (f" (from {len(singles)})" if every > 1 else ""),
                    f"{cold_s * pages:.0f} s ({_COLD_RUNS} runs of {cold_s:.2f} s, times {pages})",
                    f"{one.took_s:.3f} s",
                    f"{one.first_s:.3f} s",
                    f"{sum(single.bytes_in for single in singles) * pages // len(singles):,}",
                    f"{one.bytes_in:,}",
                    f"{sum(single.bytes_out for single in singles) * pages // len(singles):,}",
                    f"{one.bytes_out:,}",
                    f"{max(single.peak_rss_bytes for single in singles):,}",
                    f"{one.peak_rss_bytes:,}",
                ]
            )
            figures.append(
                goals.figure(
                    f"session: {pages} single requests against a session, {policy}", single_s / one.took_s, "×"
                )
            )
    go = [_go_column(policy) for policy in POLICIES]
    names = [
        *("single requests, forked from a warm template", "single requests, cold workers"),
        *("a session, all pages", "a session, its first page"),
        *("bytes in, single requests", "bytes in, session", "bytes out, single requests", "bytes out, session"),
        *("peak RSS of a single request, bytes", "peak RSS of the session, bytes"),
    ]
    rows = [list(row) for row in zip(names, *columns, *go, strict=True)]
    table = Table(
        f"All {pages} pages, without a manager",
        ["", *(f"here, {policy}" for policy in POLICIES), *(f"Go, {policy}" for policy in POLICIES)],
        rows,
        note="Columns “Go” are context and no comparison: published for the Go program that this protocol comes from, "
        "on another machine (Apple M4 Pro). What it published as peak RSS stands beside the session's.",
    )
    return table, figures


def _singles(template: Template, request: bytes, cursors: list[str], *, hints: bool) -> list[Exchange]:
    return [template.single(request, hints=hints, cursor=cursor) for cursor in cursors]


def _go_column(policy: str) -> list[str]:
    singles_s, session_s, singles_in, session_in, first_s, peak = _GO[policy]
    return [
        *(f"{singles_s:.3f} s", "–", f"{session_s:.3f} s", f"{first_s:.3f} s"),
        *(f"{singles_in:,}", f"{session_in:,}", "–", "–", "–", f"{peak:,}"),
    ]


def _thinned(values: list[float], points: int = 400) -> tuple[list[float], list[float]]:
    """A distribution in at most so many points and its last one."""
    xs, ys = timing.distribution(values)
    step = max(1, len(xs) // points)
    return [*xs[:-1:step], xs[-1]], [*ys[:-1:step], ys[-1]]
