"""What starting costs: a cold worker, and importing hintcell into a program that wants to start quickly."""

import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from bench import corpus, goals, timing
from bench.corpus import QUERY
from bench.results import Part, Plot, Series
from bench.sessions import POLICIES
from bench.workers import cold
from hintcell_worker.protocol import Request

_ROUNDS: Final = 12
_IMPORT_ROUNDS: Final = 40
_BUDGET_S: Final = 40.0
_IMPORTS_S: Final = 15.0
_DEADLINE_S: Final = 60.0
_FEW: Final = 64

_LOADED: Final = (
    "import sys; {}; print(sum(name.partition('.')[0] in ('numpy', 'scipy', 'sklearn') for name in sys.modules))"
)


def measure(effort: float = 1.0) -> Part:
    searched = corpus.corpus()
    small = corpus.of_documents(searched.documents[:_FEW])
    whole, few = (
        msgspec.json.encode(Request(searched.snapshot_id, QUERY, documents)) + b"\n"
        for documents in (searched.documents, small.documents)
    )
    loading = "loading CountVectorizer's module"
    contenders = {
        loading: partial(_program_s, ["-c", "import sklearn.feature_extraction.text"]),
        f"cold worker, {_FEW} functions": partial(cold, few, hints=False),
    } | {f"cold worker, {policy}": partial(cold, whole, hints=hints) for policy, hints in POLICIES.items()}
    programs = {
        "an empty program": partial(_program_s, ["-c", "pass"]),
        "import hintcell": partial(_program_s, ["-c", "import hintcell"]),
        "from hintcell import Client": partial(_program_s, ["-c", "from hintcell import Client"]),
    }
    for contender in (*contenders.values(), *programs.values()):  # Files come into the kernel's memory once.
        contender()
    times = timing.alternating(contenders, timing.rounds(_ROUNDS, effort), budget_s=_BUDGET_S)
    starts = timing.alternating(programs, timing.rounds(_IMPORT_ROUNDS, effort), budget_s=_IMPORTS_S)
    figures = [
        goals.figure(f"start: {name}", timing.spread(took).times(1_000), "ms")
        for name, took in (times | starts).items()
    ]
    figures += [
        goals.figure(
            "start: cold worker, against loading CountVectorizer's module",
            timing.ratio(times["cold worker, plain"], times[loading]),
            "×",
        )
    ]
    figures += [
        goals.figure(f"start: {name}, against it", timing.ratio(times[name], times[loading]), "×")
        for name in (f"cold worker, {_FEW} functions", "cold worker, hints")
    ]
    figures += [
        goals.figure(f"start: {name}, beyond an empty program", _beyond(starts[name], starts["an empty program"]), "ms")
        for name in ("import hintcell", "from hintcell import Client")
    ]
    figures += [
        goals.figure(f"start: modules of NumPy and scikit-learn after {statement}", _loaded(statement), "")
        for statement in ("import hintcell", "from hintcell import Client")
    ]
    return Part(
        "start",
        "Whole runs of programs, from starting them to their end. A cold worker reads a request of "
        f"{len(searched.documents):,} functions with {searched.text_bytes:,} bytes (or the first {_FEW} of them), "
        "ranks it and writes one page; it is held against a Python that loads the module it ranks with, and nothing "
        "more. `import hintcell` loads each name when it is used, so what using `Client` loads stands beside it.",
        figures,
        plots=[
            Plot(
                "Whole runs",
                "seconds",
                "share of the rounds",
                [Series(name, *timing.distribution(took)) for name, took in times.items()],
            )
        ],
    )


def _beyond(ours: Sequence[float], empty: Sequence[float]) -> timing.Spread:
    """The difference of the medians, in milliseconds, between the quartiles of the differences within a round."""
    within = timing.spread([(one - other) * 1_000 for one, other in zip(ours, empty, strict=True)])
    difference = timing.spread(ours).median - timing.spread(empty).median
    return within._replace(median=difference * 1_000)


def _program_s(arguments: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdin=subprocess.DEVNULL, timeout=_DEADLINE_S, check=True)
    return time.perf_counter() - started


def _loaded(statement: str) -> int:
    program = _LOADED.format(statement)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=_DEADLINE_S, check=True
    )
    return int(done.stdout)
