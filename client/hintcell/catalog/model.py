"""What a catalog is: its documents, the digest that names them, and an account of what was left out.

Does not cover where documents come from (`walk`, `packages`, `reading`) or how many fit (`limits`).
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct, field

from hintcell.errors import HintcellError
from hintcell_worker.protocol import Document

# As many as one reads through.
_PARTS_NAMED: Final = 6


class CatalogError(HintcellError):
    """No catalog can be made of what was asked for; the message says why and what to do."""


class Narrower(NamedTuple):
    """A part of what was too much, which fits by itself.

    Attributes:
        names: what asks for it: the globs together, or a part of a package.
        documents: how many it has.
    """

    names: tuple[str, ...]
    documents: int


class TooMuchError(CatalogError):
    """What was found is over the limits. The message says by how much, and the cheapest ways out.

    Attributes:
        excess: how far over which limits it is, in words.
        raised: what to raise, by the names in `Limits`, to take everything; there is then room to split identifiers
            as well. Empty if no worker takes so much.
        narrower: what to take instead, the largest first. Often together everything, but not always: one file may be
            too much, or have a name that cannot be typed.
        fits_without_tests: whether all of it fits but the tests.
    """

    def __init__(
        self,
        excess: str,
        raised: Mapping[str, int],
        narrower: Sequence[Narrower],
        *,
        fits_without_tests: bool,
    ) -> None:
        self.excess = excess
        self.raised = dict(raised)
        self.narrower = tuple(narrower)
        self.fits_without_tests = fits_without_tests
        super().__init__(f"too much for one snapshot: {excess}: {'; '.join(self._ways_out())}")

    def parts(self, typed: Callable[[tuple[str, ...]], str]) -> str:
        """The first of `narrower` as they are typed, with how many documents they have; empty if there are none."""
        named = [f"{typed(each.names)} (has {each.documents:,})" for each in self.narrower[:_PARTS_NAMED]]
        more = len(self.narrower) - len(named)
        return ", ".join([*named, *([f"and {more:,} more"] if more else [])])

    def _ways_out(self) -> Iterator[str]:
        if parts := self.parts(lambda names: ", ".join(map(repr, names))):
            yield f"take a part of it: {parts}"
        if self.raised:
            yield f"raise the limits: {', '.join(f'{name}={value}' for name, value in self.raised.items())}"
        if self.fits_without_tests:
            yield "leave tests out: include_tests=False"
        yield "take only what fits: fit=True"


class Reason(StrEnum):
    """Why something is not in a catalog. The value names what is counted, such as `ignored files and folders`."""

    UNREADABLE_FOLDERS = "unreadable folders"
    UNREADABLE_FILES = "unreadable files"
    IGNORED = "ignored files and folders"
    VENDORED_FOLDERS = "vendored folders"
    OUTSIDE_GLOBS = "files outside the globs"
    OTHER_FILES = "files of other kinds"
    LINKS = "links not followed"
    TEST_FILES = "test files"
    GENERATED_FILES = "generated files"
    BINARY_FILES = "binary files"
    LARGE_FILES = "files too large"
    LARGE_RESTS = "rests of files too large"
    SLOW_FILES = "files too slow to parse"
    EMPTY_FILES = "empty files"
    FILES_WITHOUT_FUNCTIONS = "files without functions"
    LONG_IDS = "documents with too long an id"
    TAKEN_IDS = "documents whose id is taken"
    OVER_LIMITS = "documents over the limits"


Tell = Callable[[str, Reason], None]
"""Told of what is left out, and why: a file, a folder (ends in `/`) or a document (ends in its line), printable."""


class Part(NamedTuple):
    """What becomes one document of a file: its `line` (from 1), its name within the file, and its text."""

    line: int
    name: str
    text: str


Outcome = Sequence[Part | Reason]
"""What a file holds: its parts, and the reasons for which it, or something of it, is left out."""


class Location(Struct, frozen=True, gc=False):
    """Where a document is from.

    Attributes:
        path: the file, as ids show it, never cut: relative to the folder, or from the package's name on.
        line: the line of the function's name or of the heading, from 1.
        name: the function's name within its file, or the heading; `(file)` for a whole file, `(rest)` for
            what is in none of its functions, `(text)` for text without a heading.
    """

    path: str
    line: int
    name: str


class Catalog(Struct, frozen=True):
    """One snapshot of documents, within the limits of a request.

    Attributes:
        snapshot_id: names what was read: a digest of the documents in their order, at most 128 bytes.
        documents: at least one; ids are unique, and the order is that of the files' paths, then of the lines.
        left_out: how much is missing, by `Reason`; reasons that did not occur are absent.
        text_bytes: UTF-8 bytes of the texts together.
        locations: where each document is from, by its id.
    """

    snapshot_id: str
    documents: tuple[Document, ...]
    left_out: Mapping[str, int]
    text_bytes: int
    locations: Mapping[str, Location] = field(default_factory=dict[str, Location])


def snapshot_id(origin: str, documents: Iterable[Document]) -> str:
    """`ORIGIN:` and 32 hexadecimal digits of the SHA-256 of all ids and texts, each after its length."""
    digest = hashlib.sha256()
    for document in documents:
        for part in (document.id.encode(), document.text.encode()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return f"{origin}:{digest.hexdigest()[:32]}"


def in_words(left_out: Mapping[Reason, int]) -> str:
    """The counts as one phrase, such as `unreadable files: 1, test files: 12`; empty when nothing was left out."""
    return ", ".join(f"{reason}: {left_out[reason]:,}" for reason in Reason if left_out.get(reason))
