"""The line protocol: what a request, a continuation and a response are, and their limits.

Covers the message structs, decoding with the protocol's rules about text, and every check that a request
must pass. Does not cover ranking, cursors, or reading and writing streams. Loads msgspec and nothing else, so
that a request can be refused, and a client can encode one, without scikit-learn or NumPy.
"""

import re
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

SCHEMA: Final = "riido-hints-v1"
STATUS: Final = "unverified"

POLICY_BASELINE: Final = "bm25_complete"
POLICY_IDENTIFIERS: Final = "identifier_bm25_baseline_first"
POLICY_HINTS: Final = "hint_bm25_interleave"
POLICY_IDENTIFIERS_OUT_OF_SCOPE: Final = "bm25_identifier_input_out_of_scope"

MAX_ID_BYTES: Final = 128
MAX_QUERY_BYTES: Final = 8_192
MAX_PAGE_LIMIT: Final = 4_096
MAX_CONTINUATION_BYTES: Final = 1_024

# How far limits can be raised. More than that is another kind of tool's: everything is held in memory at once.
_MOST_DOCUMENTS: Final = 1_048_576
_MOST_BYTES: Final = 1024 * 1024 * 1024

# Refuses an input that ended before it began. The manager knows it as the mark of a client that left without a word.
NOTHING_ASKED: Final = "the input is empty: send one request"

# The characters with Unicode's White_Space property, and no others (str.isspace() also takes U+001C..U+001F).
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_ANY_SURROGATE = re.compile("[\ud800-\udfff]")
# An escaped surrogate pair and any other escape stay as they are; a surrogate escape that is left over is unpaired.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)


class RequestError(Exception):
    """The caller's input breaks a rule of the protocol; the message says which rule and what to do."""


class Limits(Struct, frozen=True):
    """What a request may hold; the defaults are the protocol's.

    Attributes:
        max_documents: documents; 4,096 by default, at most 1,048,576.
        max_text_bytes: UTF-8 bytes of text in all documents together; 2 MiB by default, at most 1 GiB.
        max_request_bytes: bytes of the encoded request, its newline included; 16 MiB by default, at most 1 GiB.
    """

    max_documents: int = 4_096
    max_text_bytes: int = 2 * 1024 * 1024
    max_request_bytes: int = 16 * 1024 * 1024

    def check(self) -> None:
        """Raise RequestError if one is below 1 or above what a worker may be asked for."""
        for name, value, most in (
            ("max-documents", self.max_documents, _MOST_DOCUMENTS),
            ("max-text-bytes", self.max_text_bytes, _MOST_BYTES),
            ("max-request-bytes", self.max_request_bytes, _MOST_BYTES),
        ):
            if not 1 <= value <= most:
                raise RequestError(f"{name} is {value}: use 1 to {most}")


class Document(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One text that the caller may read.

    Attributes:
        id: names it in the ranking: 1..128 bytes of UTF-8, not blank, unique among the documents.
        text: any text, also an empty one; its UTF-8 bytes count for `Limits.max_text_bytes`.
    """

    id: str
    text: str


class Hints(Struct, frozen=True, forbid_unknown_fields=True):
    """A ranking from elsewhere, to be interleaved.

    Attributes:
        snapshot_id: that of the request, or the request is rejected.
        query: that of the request, or the request is rejected.
        candidate_ids: ids of documents, best first, each once; it may leave some out. None is an empty ranking.
    """

    snapshot_id: str
    query: str
    candidate_ids: list[str] | None


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """The query and the whole snapshot of documents that it may see."""

    snapshot_id: str
    query: str
    documents: list[Document]
    hints: Hints | None = None

    def text_bytes(self) -> int:
        """The number of UTF-8 bytes of all texts."""
        return sum(utf8_length(document.text) for document in self.documents)


class Continuation(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks an open session for the page that starts at `cursor`, of at most `limit` candidates."""

    cursor: str
    limit: int


class Candidate(Struct, frozen=True, gc=False):
    """One entry of a ranking.

    Attributes:
        candidate_id: the document's id.
        inspection_rank: place in the order in which to look, from 1.
        bm25_score: the baseline's BM25 score, whatever the policy; 0 for a document that matches nothing.
    """

    candidate_id: str
    inspection_rank: int
    bm25_score: float


class Page(Struct, frozen=True):
    """Where a page lies in its ranking; `next_cursor` is absent on the last page."""

    total_candidates: int
    offset: int
    returned: int
    ranking_sha256: str
    next_cursor: str | UnsetType = UNSET


class Response(Struct, frozen=True):
    """What a worker answers; `page` is absent when all candidates were asked for at once."""

    schema: str
    snapshot_id: str
    status: str
    policy: str
    candidates: list[Candidate]
    page: Page | UnsetType = UNSET


_T = TypeVar("_T")

_REQUEST_DECODER = msgspec.json.Decoder(Request)
_CONTINUATION_DECODER = msgspec.json.Decoder(Continuation)


def decode_request(data: bytes | bytearray, limits: Limits, *, identifier_hints: bool) -> Request:
    """Decode and check one request.

    Args:
        data: the JSON text as it arrived, within `limits.max_request_bytes` (the reader's business).
        limits: what the request may hold.
        identifier_hints: whether the ranking will split identifiers, which excludes external hints.

    Raises:
        RequestError: anything about the request breaks the protocol.
    """
    request = _decode(_REQUEST_DECODER, data, "the request")
    _check_request(request, limits, identifier_hints=identifier_hints)
    return request


def decode_continuation(line: bytes | bytearray) -> Continuation:
    """Decode and check one continuation line.

    Raises:
        RequestError: it is not exactly `{"cursor": TEXT, "limit": 1..4096}`.
    """
    continuation = _decode(_CONTINUATION_DECODER, line, "the continuation")
    if not 1 <= continuation.limit <= MAX_PAGE_LIMIT:
        raise RequestError(f"the continuation's limit is {continuation.limit}: use 1 to {MAX_PAGE_LIMIT}")
    return continuation


def utf8_length(text: str) -> int:
    """The number of UTF-8 bytes of `text`."""
    return len(text) if text.isascii() else len(text.encode())


def _decode(decoder: msgspec.json.Decoder[_T], data: bytes | bytearray, what: str) -> _T:
    try:
        try:
            return decoder.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            # The protocol reads stray bytes and unpaired surrogates as U+FFFD; msgspec refuses them.
            mended = _mend(data)
            if mended == data:
                raise
            return decoder.decode(mended)
    except msgspec.ValidationError as error:
        raise RequestError(f"{what} does not fit the protocol: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError(f"{what} is not one valid JSON value: {error}") from error


def _mend(data: bytes | bytearray) -> bytes:
    """Put U+FFFD in the place of each byte that is not UTF-8 and of each unpaired surrogate escape."""
    text = _ANY_SURROGATE.sub("\ufffd", data.decode("utf-8", "surrogateescape"))
    return _ESCAPE.sub(lambda match: "\\ufffd" if match[1] else match[0], text).encode()


def _fault_of_name(value: str) -> str | None:
    """What is wrong with a name, for after its field."""
    if not value.strip(_WHITE_SPACE):
        return "is blank: give it a value"
    if (size := utf8_length(value)) > MAX_ID_BYTES:
        return f"has {size} bytes: at most {MAX_ID_BYTES} are allowed"
    return None


def _check_request(request: Request, limits: Limits, *, identifier_hints: bool) -> None:
    if fault := _fault_of_name(request.snapshot_id):
        raise RequestError(f"snapshot_id {fault}")
    if not request.query.strip(_WHITE_SPACE):
        raise RequestError("query is blank: give it at least one word")
    if (size := utf8_length(request.query)) > MAX_QUERY_BYTES:
        raise RequestError(f"query has {size} bytes: at most {MAX_QUERY_BYTES} are allowed")
    if not request.documents:
        raise RequestError("documents is empty: give at least one document")
    if (count := len(request.documents)) > limits.max_documents:
        raise RequestError(f"there are {count} documents: at most {limits.max_documents} are allowed")
    positions: dict[str, int] = {}
    for position, document in enumerate(request.documents):
        if fault := _fault_of_name(document.id):
            raise RequestError(f"documents[{position}].id {fault}")
        first = positions.setdefault(document.id, position)
        if first != position:
            raise RequestError(f"documents[{position}].id repeats documents[{first}].id: ids must be unique")
    text_bytes = request.text_bytes()
    if text_bytes > limits.max_text_bytes:
        raise RequestError(
            f"the documents hold {text_bytes} bytes of text: at most {limits.max_text_bytes} are allowed"
        )
    if request.hints is not None:
        if identifier_hints:
            raise RequestError("hints and --identifier-hints exclude each other: use one of them")
        _check_hints(request.hints, request, positions)


def _check_hints(hints: Hints, request: Request, positions: dict[str, int]) -> None:
    if hints.snapshot_id != request.snapshot_id:
        raise RequestError("hints.snapshot_id is not the request's: make the hints for this snapshot")
    if hints.query != request.query:
        raise RequestError("hints.query is not the request's: make the hints for this query")
    seen: set[str] = set()
    for place, candidate_id in enumerate(hints.candidate_ids or ()):
        if candidate_id not in positions:
            raise RequestError(f"hints.candidate_ids[{place}] is not the id of a document of this request")
        if candidate_id in seen:
            raise RequestError(f"hints.candidate_ids[{place}] repeats an earlier one: name each candidate once")
        seen.add(candidate_id)
