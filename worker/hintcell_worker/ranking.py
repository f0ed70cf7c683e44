"""One request's ranking under its policy, and the digest that names it.

A `Ranking` keeps what pages need and nothing else: no text and no query, so that the request can be forgotten.
"""

import hashlib
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from hintcell_worker import bm25, canonical, words
from hintcell_worker.interleave import interleave, interleave_baseline_first
from hintcell_worker.protocol import (
    MAX_QUERY_BYTES,
    POLICY_BASELINE,
    POLICY_HINTS,
    POLICY_IDENTIFIERS,
    POLICY_IDENTIFIERS_OUT_OF_SCOPE,
    Document,
    Hints,
    Limits,
    Request,
    utf8_length,
)


class Ids:
    """Ids in one piece of memory: strings of their own would keep alive the pages that they share with texts."""

    def __init__(self, documents: Sequence[Document]) -> None:
        encoded = [document.id.encode() for document in documents]
        self._joined = b"".join(encoded)
        self._ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def at(self, positions: npt.NDArray[np.intp]) -> list[str]:
        """The ids of the documents at these places of the catalog."""
        starts, ends = self._ends.take(positions).tolist(), self._ends.take(positions + 1).tolist()
        return [self._joined[start:end].decode() for start, end in zip(starts, ends, strict=True)]


class Ranking(msgspec.Struct, frozen=True):
    """A complete order of one catalog.

    Attributes:
        snapshot_id: the request's.
        policy: how the order was made, one of the protocol's POLICY_ names.
        ids: the documents' ids, in catalog order.
        order: catalog positions, best first; shape (len(ids),).
        scores: the baseline's BM25, in catalog order; shape (len(ids),).
        sha256: the digest of request, policy, order and scores, in hexadecimal.
    """

    snapshot_id: str
    policy: str
    ids: Ids
    order: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]
    sha256: str


class _HashedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    snapshot_id: str
    query: str
    documents: msgspec.Raw
    hints: Hints | None = None


class _HashedRanking(msgspec.Struct, frozen=True, rename="pascal"):
    version: str
    request: _HashedRequest
    model_hash: str
    identifiers: bool
    policy: str
    order: list[int]
    scores: msgspec.Raw


def rank(request: Request, limits: Limits, *, identifier_hints: bool) -> Ranking:
    """Rank every document of a checked request."""
    texts = [document.text for document in request.documents]
    scores = bm25.scores(words.words(request.query), texts)
    baseline = bm25.ranking(scores)
    policy, order = POLICY_BASELINE, baseline
    if identifier_hints:
        policy, order = _with_identifiers(request, texts, baseline, limits)
    elif request.hints is not None:
        policy, order = POLICY_HINTS, _with_hints(request, baseline)
    return Ranking(
        snapshot_id=request.snapshot_id,
        policy=policy,
        ids=Ids(request.documents),
        order=order,
        scores=scores,
        sha256=_digest(request, policy, order, scores, identifier_hints=identifier_hints),
    )


def _with_identifiers(
    request: Request, texts: Sequence[str], baseline: npt.NDArray[np.intp], limits: Limits
) -> tuple[str, npt.NDArray[np.intp]]:
    split_query = words.split_identifiers(request.query)
    query_words = words.words(split_query)
    if not query_words or utf8_length(split_query) > MAX_QUERY_BYTES:
        return POLICY_IDENTIFIERS_OUT_OF_SCOPE, baseline
    counts = bm25.count(query_words, texts, split_identifiers=True)
    if request.text_bytes() + counts.breaks > limits.max_text_bytes:  # A break is one space.
        return POLICY_IDENTIFIERS_OUT_OF_SCOPE, baseline
    split = bm25.ranking(bm25.score(counts))
    return POLICY_IDENTIFIERS, np.array(interleave_baseline_first(baseline.tolist(), split.tolist()), dtype=np.intp)


def _with_hints(request: Request, baseline: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    positions = {document.id: position for position, document in enumerate(request.documents)}
    hinted = [positions[candidate_id] for candidate_id in (request.hints and request.hints.candidate_ids) or ()]
    return np.array(interleave(baseline.tolist(), hinted), dtype=np.intp)


def _digest(
    request: Request,
    policy: str,
    order: npt.NDArray[np.intp],
    scores: npt.NDArray[np.float64],
    *,
    identifier_hints: bool,
) -> str:
    content = _HashedRanking(
        version="riido-hints-page-v1",
        request=_HashedRequest(request.snapshot_id, request.query, msgspec.Raw(b""), request.hints),
        model_hash="",
        identifiers=identifier_hints,
        policy=policy,
        order=order.tolist(),
        scores=canonical.numbers(scores.tolist()),
    )
    # No string can hold this key: quotes in strings are escaped.
    before, key, after = canonical.encode(content).partition(b'"documents":')
    digest = hashlib.sha256(before + key)
    for part in canonical.encode_in_parts(request.documents):
        digest.update(part)
    digest.update(after + b"\n")
    return digest.hexdigest()
