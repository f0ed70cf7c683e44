"""The texts that are searched: functions of the installed scikit-learn, SciPy and NumPy, the same in every run.

All functions are read once and kept in `bench/results`, because every part runs in a process of its own. What is
chosen of them depends on nothing but them and the size that is asked for.
"""

import hashlib
import os
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

from bench.results import RESULTS
from hintcell import Document
from hintcell.catalog import build_from_packages
from hintcell.catalog.model import snapshot_id
from hintcell_worker.protocol import Limits, utf8_length

PACKAGES: Final = ("sklearn", "scipy", "numpy")
_DISTRIBUTIONS: Final = ("scikit-learn", "scipy", "numpy")
_PARSERS: Final = ("tree-sitter", "tree-sitter-python")
QUERY: Final = "minimize a function with bounds"
PAGE: Final = 20

# As many as the published figures of the Go program are about.
FUNCTIONS: Final = 3_009
# The policy that splits identifiers needs room for the spaces that it puts in, 0.3 % with these packages: a catalog
# filled to the last byte would be out of its scope.
TEXT_BYTES: Final = Limits().max_text_bytes - Limits().max_text_bytes // 64

# For what is read without a worker.
UNBOUNDED: Final = Limits(max_documents=10**6, max_text_bytes=10**9, max_request_bytes=10**10)


class NotEnoughError(Exception):
    """The packages do not hold what a benchmark needs; the message says what."""


class Corpus(msgspec.Struct, frozen=True):
    """Documents under the digest that names them."""

    snapshot_id: str
    documents: list[Document]
    text_bytes: int

    @property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]


def corpus() -> Corpus:
    """FUNCTIONS functions with at most TEXT_BYTES bytes."""
    return of_documents(choose(all_functions(), FUNCTIONS, TEXT_BYTES))


def of_documents(documents: list[Document]) -> Corpus:
    return Corpus(
        snapshot_id("python", documents), documents, sum(utf8_length(document.text) for document in documents)
    )


def choose(functions: Sequence[Document], number: int, text_bytes: int) -> list[Document]:
    """Exactly so many functions with at most so many bytes together, in their order.

    Of the functions up to some size, evenly spaced ones are taken; the size is the largest with which they fit. (The
    bytes need not grow with the size from one step to the next: the search by halves finds a size at which they fit.)

    Raises:
        NotEnoughError: there are too few, or the smallest are too large.
    """
    sizes = [utf8_length(function.text) for function in functions]

    def of_size(largest: int) -> list[int]:
        small = [place for place, size in enumerate(sizes) if size <= largest]
        if len(small) < number:
            return []
        return [small[turn * len(small) // number] for turn in range(number)]

    def fit(largest: int) -> bool:
        return sum(sizes[place] for place in of_size(largest)) <= text_bytes

    ordered = sorted(sizes)
    steps = sorted(set(ordered[number - 1 :])) if 0 < number <= len(ordered) else []
    if not steps or not fit(steps[0]):
        raise NotEnoughError(f"there are not {number:,} functions with at most {text_bytes:,} bytes together")
    low, high = 0, len(steps)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(steps[middle]) else (low, middle)
    return [functions[place] for place in of_size(steps[low])]


def all_functions() -> list[Document]:
    """Every function of PACKAGES, kept from an earlier run if the same versions are installed."""
    kept = RESULTS / f"functions-{_key()}.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=list[Document])
    documents = list(build_from_packages(PACKAGES, limits=UNBOUNDED).documents)
    RESULTS.mkdir(exist_ok=True)
    for outdated in RESULTS.glob("functions-*.json"):
        outdated.unlink(missing_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}")  # Tests in several processes may come here at once.
    unfinished.write_bytes(msgspec.json.encode(documents))
    unfinished.replace(kept)
    return documents


def _key() -> str:
    """Changes with whatever the functions depend on: the packages, and how a catalog is built."""
    import hintcell.catalog

    digest = hashlib.sha256(repr([(name, metadata.version(name)) for name in (*_DISTRIBUTIONS, *_PARSERS)]).encode())
    folder = Path(hintcell.catalog.__file__).parent
    for file in sorted([*folder.glob("*.py"), *folder.glob("queries/*.scm")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
