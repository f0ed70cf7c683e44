"""`python -m bench.allocations POLICY`: rank the corpus under tracemalloc, and write what was allocated where as JSON.

A thread looks while the other ranks; of its looks, the one with the most memory counts. Each takes a good part of a
second, in which the ranking stands still, so there are few in long calls: an analysis, not a measurement.
"""

import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Final

import msgspec

from bench import corpus
from bench.corpus import PAGE, QUERY
from bench.sessions import POLICIES
from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.protocol import Document, Request

_BETWEEN_LOOKS_S: Final = 0.002
# Only a look that is so much above the last best is taken, because it takes long.
_HIGHER: Final = 1.02
_ENOUGH_LINES: Final = 30


def main() -> int:
    hints = POLICIES[sys.argv[1]]
    searched = corpus.corpus()
    request = msgspec.json.encode(Request(searched.snapshot_id, QUERY, searched.documents)) + b"\n"
    sample = [Document("a", "warmUp"), Document("b", "Übung2x")]
    small = msgspec.json.encode(Request("s", "warmUp Ü", sample)) + b"\n"
    options = Options(session=True, limit=PAGE, identifier_hints=hints)
    list(Conversation(options).receive(small))
    del searched
    sys.setswitchinterval(0.0005)
    tracemalloc.start()
    done = threading.Event()
    looker = _Looker(done)
    looker.start()
    list(Conversation(options).receive(request))
    _, peak = tracemalloc.get_traced_memory()
    done.set()
    looker.join()
    if looker.best is None:
        raise RuntimeError("nothing was allocated")
    found = looker.best.statistics("lineno")[:_ENOUGH_LINES]
    lines = [(_place(statistic.traceback[0]), statistic.size) for statistic in found]
    print(msgspec.json.encode((peak, lines)).decode())
    return 0


class _Looker(threading.Thread):
    def __init__(self, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self.best: tracemalloc.Snapshot | None = None
        self._highest = 0
        self._done = done

    def run(self) -> None:
        while not self._done.wait(_BETWEEN_LOOKS_S):
            now, _ = tracemalloc.get_traced_memory()
            if now > self._highest * _HIGHER:
                self._highest = now
                self.best = tracemalloc.take_snapshot()


def _place(frame: tracemalloc.Frame) -> str:
    """The file with its package, and the line."""
    return f"{'/'.join(Path(frame.filename).parts[-2:])}:{frame.lineno}"


if __name__ == "__main__":
    sys.exit(main())
