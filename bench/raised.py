"""`python -m bench.raised DOCUMENTS POLICY`: seconds for each byte of text of a catalog that large, in this process.

From the request's bytes, fed as a worker reads them, to the first page's. `bench.scale` runs it.
"""

import sys
import time
from typing import Final

import msgspec

from bench import corpus, timing
from bench.corpus import PAGE, QUERY
from bench.goals import MIB
from bench.scale import large_catalog
from bench.sessions import POLICIES
from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.protocol import Document, Limits, Request, utf8_length

_READ_BYTES: Final = 64 * 1024
# A small catalog is ranked several times, so that its time is as steady as a large one's.
_MEASURED_BYTES: Final = 16 * MIB


def main() -> int:
    documents = large_catalog(corpus.all_functions(), int(sys.argv[1]))
    text_bytes = sum(utf8_length(document.text) for document in documents)
    request = msgspec.json.encode(Request("large", QUERY, documents)) + b"\n"
    limits = Limits(len(documents), text_bytes * 2, len(request))
    options = Options(session=True, limit=PAGE, identifier_hints=POLICIES[sys.argv[2]], limits=limits)
    # As a template does before it forks: ASCII and other texts each have tables that are built when first needed.
    sample = [Document("a", "warmUp"), Document("b", "Übung2x")]
    small = msgspec.json.encode(Request("small", "warmUp Ü", sample)) + b"\n"
    del documents
    _conversation_s(options, small)
    times = [_conversation_s(options, request) for _ in range(max(1, _MEASURED_BYTES // text_bytes))]
    print(timing.quantile(times, 0.5) / text_bytes)
    return 0


def _conversation_s(options: Options, request: bytes) -> float:
    started = time.perf_counter()
    conversation = Conversation(options)
    answers = [
        answer
        for start in range(0, len(request), _READ_BYTES)
        for answer in conversation.receive(request[start : start + _READ_BYTES])
    ]
    took_s = time.perf_counter() - started
    if len(answers) != 1:
        raise RuntimeError(f"{len(answers)} answers came to one request")
    return took_s


if __name__ == "__main__":
    sys.exit(main())
