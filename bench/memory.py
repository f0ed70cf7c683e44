"""Memory of a worker through its session's life, its peak while ranking, and where the bytes are.

The kernel keeps no high-water mark of USS, so it is read from outside, again and again, as fast as the kernel
answers: about once in a millisecond. A peak that lasts less can be missed, so several runs are made and the highest
counts. Reading holds the worker up a little; no time is measured here.
"""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bench import corpus, goals, timing
from bench.corpus import Corpus
from bench.goals import MIB
from bench.results import Figure, Part, Plot, Series, Table
from bench.sessions import (
    POLICIES,
    DocumentsAfter,
    MemoryBytes,
    NotMeasurableError,
    memory_of_the_session,
    opened,
    wait_until_gone,
    worker_of_the_session,
)
from hintcell import Client

_RUNS: Final = 8
_SHOWN_LINES: Final = 12
_SHOWN_BYTES: Final = 16 * 1024
_ANALYSIS_S: Final = 40.0
# The session is held so long after its first page, so that the plot shows what is left.
_HELD_S: Final = 0.05
_ROOT: Final = Path(__file__).parents[1]


class Sample(NamedTuple):
    """One look, `at_s` seconds after the first."""

    at_s: float
    rss: int
    pss: int
    uss: int


class Sampler(threading.Thread):
    """Reads one process's memory until it is told to stop or the process is gone."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self._path = f"/proc/{pid}/smaps_rollup"
        self._stopped = threading.Event()

    def run(self) -> None:
        began = time.perf_counter()
        while not self._stopped.is_set():
            try:
                with open(self._path, "rb") as file:  # noqa: PTH123 - nothing but the read should take time
                    text = file.read()
            except (ProcessLookupError, FileNotFoundError):
                return
            if sample := read_rollup(text, time.perf_counter() - began):
                self.samples.append(sample)

    def stop(self) -> list[Sample]:
        self._stopped.set()
        self.join()
        if not self.samples:
            raise NotMeasurableError("the memory of a worker could not be read")
        return self.samples


def read_rollup(text: bytes, at_s: float) -> Sample | None:
    """What /proc/PID/smaps_rollup says (proc(5)); None if the process has no memory any more."""
    sizes: dict[bytes, int] = {}
    for line in text.splitlines()[1:]:
        name, _, rest = line.partition(b":")
        sizes[name] = int(rest.split()[0]) * 1024
    if not sizes:
        return None
    return Sample(at_s, sizes[b"Rss"], sizes[b"Pss"], sizes[b"Private_Clean"] + sizes[b"Private_Dirty"])


def measure(effort: float = 1.0) -> Part:
    searched = corpus.corpus()
    peaks: dict[str, list[Sample]] = {policy: [] for policy in POLICIES}
    courses: dict[str, list[Sample]] = {}
    life: list[list[str]] = []
    with Client() as client:
        with opened(client, searched, hints=False) as session:  # The template is ready, and the manager warm.
            session.page()
        wait_until_gone(client, session.pid)
        for policy, hints in POLICIES.items():
            life += [[f"{policy}, {when}", *_cells(look)] for when, look in _life(client, searched, hints=hints)]
        for _ in range(timing.rounds(_RUNS, effort)):
            for policy, hints in POLICIES.items():
                samples = _sampled(client, searched, hints=hints)
                peak = max(samples, key=lambda sample: sample.uss)
                if not peaks[policy] or peak.uss > max(one.uss for one in peaks[policy]):
                    courses[policy] = samples
                peaks[policy].append(peak)
    figures: list[Figure] = []
    for policy, found in peaks.items():
        uss = [peak.uss / MIB for peak in found]
        highest = timing.spread(uss)._replace(median=max(uss))
        figures.append(goals.figure(f"memory: peak USS while ranking, {policy}", highest, "MiB"))
        looks = timing.Spread(float(len(courses[policy])), None, None, len(found))
        figures.append(goals.figure(f"memory: looks in the run with the highest peak, {policy}", looks, ""))
    return Part(
        "memory",
        f"One worker, {len(searched.documents):,} functions with {searched.text_bytes:,} bytes. RSS counts every "
        "resident page, also those shared with the template and every other worker; PSS counts a shared page in "
        "proportion; USS counts what this process alone holds, and what its end gives back. A peak is the highest of "
        "all looks in all runs; its quartiles are those of the runs' peaks.",
        figures,
        tables=[
            Table("A session's life, MiB", ["", "RSS", "PSS", "USS", "peak RSS"], life, "Looked at while it waits."),
            *(_where_the_bytes_are(policy) for policy in POLICIES),
        ],
        plots=[
            Plot(
                "Memory from admission to the first page, and held",
                "milliseconds since the worker was admitted",
                "MiB",
                [
                    Series(
                        f"{policy}, {kind.upper()}",
                        [sample.at_s * 1_000 for sample in samples],
                        [getattr(sample, kind) / MIB for sample in samples],
                    )
                    for policy, samples in courses.items()
                    for kind in ("rss", "pss", "uss")
                ],
                note="Of the run with the highest peak; being looked at makes it slower than it is.",
            )
        ],
    )


def _life(client: Client, searched: Corpus, *, hints: bool) -> list[tuple[str, MemoryBytes]]:
    looks: list[tuple[str, MemoryBytes]] = []

    def look(when: str) -> None:
        looks.append((when, memory_of_the_session(client)))

    documents = DocumentsAfter(searched.documents, lambda: look("admitted, no request yet"))
    with opened(client, searched, hints=hints, documents=documents) as session:
        page = session.page()
        look("after the first page")
        page = session.page(page.next_cursor)
        look("after the second page")
        while page.next_cursor is not None:
            page = session.page(page.next_cursor)
        look("after the last page")
    wait_until_gone(client, session.pid)
    return looks


def _sampled(client: Client, searched: Corpus, *, hints: bool) -> list[Sample]:
    samplers: list[Sampler] = []

    def begin() -> None:
        samplers.append(Sampler(worker_of_the_session(client)))
        samplers[0].start()

    try:
        with opened(client, searched, hints=hints, documents=DocumentsAfter(searched.documents, begin)) as session:
            session.page()
            time.sleep(_HELD_S)
            samples = samplers[0].stop()
        wait_until_gone(client, session.pid)
    finally:
        for sampler in samplers:
            sampler.stop()
    return samples


def _cells(look: MemoryBytes) -> list[str]:
    return [f"{size / MIB:.1f}" for size in (look.rss, look.pss, look.uss, look.peak_rss)]


def _where_the_bytes_are(policy: str) -> Table:
    """The lines that had allocated the most at the highest point, as a child process under tracemalloc saw it."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.allocations", policy],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=_ANALYSIS_S,
        check=True,
    )
    peak, lines = msgspec.json.decode(done.stdout, type=tuple[int, list[tuple[str, int]]])
    rows = [[where, f"{size / MIB:.2f}"] for where, size in lines[:_SHOWN_LINES] if size >= _SHOWN_BYTES]
    return Table(
        f"Where the bytes are, {policy}",
        ["line that allocated them", "MiB"],
        rows,
        note=f"Of a look near the highest point; the highest that tracemalloc itself noted is {peak / MIB:.1f} MiB. It "
        "sees what Python and NumPy allocate: neither pages copied because a count changed on them, nor what malloc "
        "keeps for itself.",
    )
