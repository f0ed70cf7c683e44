"""What a catalog is: its documents, the digest that names them, and an account of what was left out.

Does not cover where functions come from (`files`, `packages`, `python`) or how many fit (`limits`).
"""

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from hintcell.errors import HintcellError
from hintcell_worker.protocol import Document


class CatalogError(HintcellError):
    """No catalog can be made of what was asked for; the message says why and what to do."""


class Reason(StrEnum):
    """Why something is not in a catalog. The value names what is counted."""

    UNREADABLE_FOLDERS = "unreadable folders"
    UNREADABLE_FILES = "unreadable files"
    LINKS = "links not followed"
    TEST_FILES = "test files"
    LARGE_FILES = "files too large"
    INVALID_FILES = "files without valid source"
    EMPTY_FILES = "files without functions"
    LONG_IDS = "functions with too long an id"
    TAKEN_IDS = "functions whose id is taken"
    OVER_LIMITS = "functions over the limits"


class Location(Struct, frozen=True, gc=False):
    """Where a document stands.

    Attributes:
        path: of its file, relative to the root, with `/`; printable and whole, where an id may be cut.
        line: its first line, from 1.
        name: the qualified name, or what else the document is called.
    """

    path: str
    line: int
    name: str


class Catalog(Struct, frozen=True):
    """One snapshot of functions, within the limits of a request.

    Attributes:
        snapshot_id: names what was read: equal for equal documents in equal order, 39 bytes.
        documents: at least one; ids are unique, and the order is that of the files' paths, then of the lines.
        left_out: how much is missing, by reason; reasons that did not occur are absent.
        text_bytes: UTF-8 bytes of the texts together.
    """

    snapshot_id: str
    documents: tuple[Document, ...]
    left_out: Mapping[Reason, int]
    text_bytes: int


def snapshot_id(language: str, documents: Iterable[Document]) -> str:
    """`LANGUAGE:` and 32 hexadecimal digits of the SHA-256 of all ids and texts, each after its length."""
    digest = hashlib.sha256()
    for document in documents:
        for part in (document.id.encode(), document.text.encode()):
            digest.update(b"%d:" % len(part))
            digest.update(part)
    return f"{language}:{digest.hexdigest()[:32]}"


def in_words(left_out: Mapping[Reason, int]) -> str:
    """The counts as one phrase, such as `unreadable files: 1, test files: 12`; empty when nothing was left out."""
    return ", ".join(f"{reason}: {left_out[reason]:,}" for reason in Reason if left_out.get(reason))
