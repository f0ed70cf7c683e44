"""What ranking costs, without a clock: Python calls for each document, and memory at its peak.

Bounds are about twice what was measured. A change that goes over one has made ranking slower or larger for everyone:
look for what it does once for each document, or holds for all of them, before raising the bound.
"""

import random
import sys
import tracemalloc
from types import FrameType

import msgspec
import pytest

from hintcell_worker.conversation import Conversation, Options

MIB = 1024 * 1024
_WORDS = ["readConfig", "parse_file", "matrix", "return", "self", "value", "x2", "HTTPServer", "ndarray", "for", "in"]


def request(documents: int, text_bytes: int) -> bytes:
    """A request line of documents like source code."""
    choose = random.Random(0)
    texts = (
        " ".join(choose.choices(_WORDS, k=text_bytes // 7)).ljust(text_bytes)[:text_bytes] for _ in range(documents)
    )
    catalog = [{"id": f"file.py:{number}", "text": text} for number, text in enumerate(texts)]
    return msgspec.json.encode({"snapshot_id": "s", "query": "read the config", "documents": catalog}) + b"\n"


def first_page(line: bytes, *, identifier_hints: bool) -> bytes:
    """What a worker answers to this request, first page of 20."""
    (answer,) = Conversation(Options(session=True, limit=20, identifier_hints=identifier_hints)).receive(line)
    return answer


def calls(line: bytes, *, identifier_hints: bool) -> int:
    """How many Python functions, and functions written in C, are called while the request is answered."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        first_page(line, identifier_hints=identifier_hints)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("identifier_hints", "bound"), [(False, 45), (True, 80)], ids=["plain", "identifiers"])
def test_a_document_more_costs_few_calls(identifier_hints: bool, bound: int) -> None:
    few, many = (request(number, 500) for number in (1_000, 3_000))
    first_page(few, identifier_hints=identifier_hints)  # What is done once for a process.
    counts = [calls(line, identifier_hints=identifier_hints) for line in (few, many)]
    assert (counts[1] - counts[0]) / 2_000 <= bound, counts


@pytest.mark.parametrize(("identifier_hints", "bound"), [(False, 9.0), (True, 9.0)], ids=["plain", "identifiers"])
def test_ranking_the_most_text_takes_little_more_memory_than_the_text(identifier_hints: bool, bound: float) -> None:
    line = request(4_000, 510)
    first_page(line, identifier_hints=identifier_hints)
    tracemalloc.start()
    try:
        first_page(line, identifier_hints=identifier_hints)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / MIB <= bound
