"""Many sessions, and large catalogs: opens, what is held, how fast permissions change, what a byte costs.

The cost beyond the protocol's limits is that of the conversation alone, in a process without a manager: from the
request's bytes to the first page's.
"""

import contextlib
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import psutil

from bench import corpus, goals, timing
from bench.corpus import Corpus
from bench.goals import MIB
from bench.results import Figure, Part, Plot, Series, Table
from bench.sessions import POLICIES, NotMeasurableError, exists, first_page_s, opened, wait_until_gone
from hintcell import Client, Document, Session
from hintcell_worker.protocol import Limits

_FEW: Final = 64
_FEW_QUERY: Final = "return the value of an array"
_OPEN_SECONDS: Final = 4.0
# The goal's figure is with two, one for each core that the goals are set for; the others show what it depends on.
_THREADS: Final = (1, 2, 4)
_GOAL_THREADS: Final = 2

_HELD: Final = (100, 300, 500)
_WATCH_S: Final = 4.0
_CHANGES: Final = 120

_SIZES: Final = (64, 128, 256, 512, 1_024, 2_048, 4_096)
_SIZE_ROUNDS: Final = 8
_SIZES_S: Final = 25.0

# Number of documents of 1 KiB on average, and the bytes.
_RAISED: Final = ((2_048, 2 * MIB), (8_192, 8 * MIB), (32_768, 32 * MIB), (65_536, 64 * MIB))
_RAISED_ROUNDS: Final = 3
_RAISED_S: Final = 60.0
_CHILD_S: Final = 60.0
# Distinct functions of which larger catalogs are made, again and again under new ids: not all have so few bytes.
_DISTINCT: Final = 8_192

# Descriptors of sessions, here and in the manager: several for each.
_DESCRIPTORS: Final = 8_192
_ROOT: Final = Path(__file__).parents[1]


def measure(effort: float = 1.0) -> Part:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _DESCRIPTORS)), hard))
    functions = corpus.all_functions()
    small = corpus.of_documents(corpus.choose(functions, _FEW, _FEW * 512))
    with Client() as client:
        first_page_s(client, small, hints=False, query=_FEW_QUERY)
        opens = _opens(client, small, effort)
    with Client() as client:
        first_page_s(client, small, hints=False, query=_FEW_QUERY)
        held, table, plot = _held(client, small, effort)
    with Client() as client:
        sizes, by_size = _by_size(client, functions, effort)
    raised, by_raised = _raised(effort)
    return Part(
        "scale",
        f"Opens, sessions held and permission changes with catalogs of {_FEW} functions ({small.text_bytes:,} bytes) "
        "and the first page read; then what a first page costs with catalogs up to the protocol's limits, seen by a "
        f"client, and beyond them in the conversation alone, up to {_RAISED[-1][0]:,} documents. Beyond "
        f"{_DISTINCT:,} documents the same functions come again under new ids.",
        [*opens, *held, *sizes, *raised],
        tables=[table],
        plots=[
            plot,
            Plot(
                "Cost against catalog size",
                "documents",
                "milliseconds to the first page",
                [*by_size, *by_raised],
                x_log=True,
                y_log=True,
                note="A session's is seen by its client, with 504 bytes or a little less for each document; the "
                "conversation's is inside its process, with 1,024 or less. Medians.",
            ),
        ],
    )


def _opens(client: Client, small: Corpus, effort: float) -> list[Figure]:
    """Opens per second: first page read, closed, and the next one opened."""
    seconds = max(1.0, _OPEN_SECONDS * effort)
    figures: list[Figure] = []
    for threads in _THREADS:
        rates = [_open_rate(client, small, threads, seconds / timing.MIN_ROUNDS) for _ in range(timing.MIN_ROUNDS)]
        if threads == _GOAL_THREADS:
            figures.append(goals.figure(f"scale: opens per second, {_FEW} documents", timing.spread(rates), "/s"))
        else:
            figures.append(goals.figure(f"scale: opens per second, threads: {threads}", timing.spread(rates), "/s"))
    return figures


def _open_rate(client: Client, small: Corpus, threads: int, seconds: float) -> float:
    """How many sessions a second so many threads open, read and close; the last ones are gone afterwards."""
    until = time.perf_counter() + seconds
    counts = [0] * threads
    last_pids = [0] * threads

    def go_on(number: int) -> None:
        while time.perf_counter() < until:
            with opened(client, small, hints=False, query=_FEW_QUERY) as session:
                session.page()
                last_pids[number] = session.pid
            counts[number] += 1

    running = [threading.Thread(target=go_on, args=(number,)) for number in range(threads)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    took_s = time.perf_counter() - began
    for pid in last_pids:
        wait_until_gone(client, pid)
    if not all(counts):
        raise NotMeasurableError("a thread opened no session")
    return sum(counts) / took_s


def _held(client: Client, small: Corpus, effort: float) -> tuple[list[Figure], Table, Plot]:
    template_pid = client.status().template_pid
    if template_pid is None:
        raise NotMeasurableError("the manager has no template")
    alone = _pss(template_pid)
    sessions: list[Session] = []
    figures: list[Figure] = []
    rows: list[list[str]] = []
    points: list[tuple[int, float]] = [(0, alone / MIB)]
    for number in _HELD:
        sessions += [_held_session(client, small) for _ in range(number - len(sessions))]
        pss = _pss(template_pid) + sum(_pss(session.pid) for session in sessions)
        above = (pss - alone) / number / MIB
        share = _manager_share(client, max(1.0, _WATCH_S * effort))
        figures += [
            goals.figure(f"scale: {number} sessions held, PSS above the template's, for each", above, "MiB"),
            goals.figure(f"scale: {number} sessions held, manager's share of a core", share * 100, "%"),
        ]
        rows.append(
            [f"{number}", *(f"{size / MIB:,.0f}" for size in (pss, alone, alone + number * 3 * MIB)), f"{share:.1%}"]
        )
        points.append((number, pss / MIB))
    figures += _changes(client, small, sessions, effort)
    table = Table(
        "Sessions held",
        ["sessions", "PSS of all workers and the template, MiB", "template alone", "goal at most", "manager's CPU"],
        rows,
        note="The template alone is its PSS before the first of them was opened.",
    )
    counts = [count for count, _ in points]
    plot = Plot(
        "Sessions against memory",
        "sessions held",
        "MiB, PSS of all workers and the template",
        [
            Series("measured", counts, [size for _, size in points]),
            Series("goal, at most", counts, [alone / MIB + count * 3 for count in counts]),
        ],
    )
    return figures, table, plot


def _held_session(client: Client, small: Corpus) -> Session:
    session = opened(client, small, hints=False, query=_FEW_QUERY)
    session.page()
    return session


def _changes(client: Client, small: Corpus, held: Sequence[Session], effort: float) -> list[Figure]:
    """Permission changes: one session at a time while all the others are held, then all of them."""
    single: list[float] = []
    for _ in range(timing.rounds(_CHANGES, effort)):
        session = _held_session(client, small)
        took_s, report = timing.timed(partial(client.permission_changed, session_id=session.id))
        single.append(took_s * 1_000)
        if [ended.session_id for ended in report.ended] != [session.id]:
            raise NotMeasurableError("a permission change did not end the one session that it named")
        session.close()
    took_s, report = timing.timed(partial(client.permission_changed, principal="bench"))
    if len(report.ended) != len(held) or any(exists(session.pid) and _is_running(session.pid) for session in held):
        raise NotMeasurableError("a permission change did not end every session")
    for session in held:
        session.close()
    percentile = timing.Spread(timing.quantile(single, 0.99), None, None, len(single))
    return [
        goals.figure("scale: permission change for one session, p50", timing.spread(single), "ms"),
        goals.figure("scale: permission change for one session, p99", percentile, "ms"),
        goals.figure(f"scale: permission change for {len(held)} sessions", took_s * 1_000, "ms"),
    ]


def _is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _pss(pid: int) -> int:
    size: int = psutil.Process(pid).memory_full_info().pss
    return size


def _manager_share(client: Client, seconds: float) -> float:
    before = client.status()
    time.sleep(seconds)
    after = client.status()
    return (after.cpu_s - before.cpu_s) / (after.uptime_s - before.uptime_s)


def _by_size(client: Client, functions: Sequence[Document], effort: float) -> tuple[list[Figure], list[Series]]:
    """A first page against the number of documents, whose average size stays."""
    average = Limits().max_text_bytes * 63 // 64 // _SIZES[-1]
    catalogs = {size: corpus.of_documents(corpus.choose(functions, size, size * average)) for size in _SIZES}
    contenders = {
        f"{policy}, {size:,} documents": partial(first_page_s, client, catalog, hints=hints)
        for policy, hints in POLICIES.items()
        for size, catalog in catalogs.items()
    }
    for contender in contenders.values():
        contender()
    times = timing.alternating(contenders, timing.rounds(_SIZE_ROUNDS, effort), budget_s=_SIZES_S)
    figures = [
        goals.figure(f"scale: session's first page, {name}", timing.spread(took).times(1_000), "ms")
        for name, took in times.items()
    ]
    series = [
        Series(
            f"session, {policy}",
            list(_SIZES),
            [timing.quantile(times[f"{policy}, {size:,} documents"], 0.5) * 1_000 for size in _SIZES],
        )
        for policy in POLICIES
    ]
    return figures, series


def _raised(effort: float) -> tuple[list[Figure], list[Series]]:
    """What a byte costs in catalogs beyond the limits, against one of 2 MiB."""
    contenders = {
        f"{policy}, {size // MIB} MiB": partial(_child_s_per_byte, documents, policy)
        for policy in POLICIES
        for documents, size in _RAISED
    }
    times = timing.alternating(contenders, timing.rounds(_RAISED_ROUNDS, effort), budget_s=_RAISED_S)
    figures: list[Figure] = []
    for policy in POLICIES:
        for documents, size in _RAISED:
            per_byte = times[f"{policy}, {size // MIB} MiB"]
            name = f"scale: cost per MiB, {policy}, {documents:,} documents of {size // MIB} MiB"
            figures.append(goals.figure(name, timing.spread(per_byte).times(1_000 * MIB), "ms"))
        for _, size in _RAISED[1:]:
            against = timing.ratio(
                times[f"{policy}, {size // MIB} MiB"], times[f"{policy}, {_RAISED[0][1] // MIB} MiB"]
            )
            figures.append(
                goals.figure(f"scale: cost per byte at {size // MIB} MiB against 2 MiB, {policy}", against, "×")
            )
    series = [
        Series(
            f"conversation, {policy}",
            [documents for documents, _ in _RAISED],
            [timing.quantile(times[f"{policy}, {size // MIB} MiB"], 0.5) * size * 1_000 for _, size in _RAISED],
        )
        for policy in POLICIES
    ]
    return figures, series


def large_catalog(functions: Sequence[Document], number: int) -> list[Document]:
    """So many documents of 1 KiB on average; larger ones hold what the smaller ones hold, in proportion."""
    distinct = corpus.choose(functions, _DISTINCT, _DISTINCT * 1_024)
    if number <= _DISTINCT:
        step = _DISTINCT // number
        return distinct[::step][:number]
    return [
        Document(f"{copy}:{place}", document.text)
        for copy in range(-(-number // _DISTINCT))
        for place, document in enumerate(distinct)
    ][:number]


def _child_s_per_byte(documents: int, policy: str) -> float:
    done = subprocess.run(
        [sys.executable, "-m", "bench.raised", str(documents), policy],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=_CHILD_S,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=float)
