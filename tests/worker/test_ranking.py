"""Whole rankings against the plain reading: policy, order, scores and digest."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker import bm25
from hintcell_worker.conversation import Options
from hintcell_worker.protocol import (
    POLICY_BASELINE,
    POLICY_HINTS,
    POLICY_IDENTIFIERS,
    POLICY_IDENTIFIERS_OUT_OF_SCOPE,
    Limits,
    decode_request,
)
from hintcell_worker.ranking import Ranking, rank
from tests.worker import plain
from tests.worker.requests import POLICIES, Ask, asks, encode, small_request


def _rank(ask: Ask) -> Ranking:
    _, options = ask
    request = decode_request(encode(ask.request), options.limits, identifier_hints=options.identifier_hints)
    return rank(request, options.limits, identifier_hints=options.identifier_hints)


def _plain_order(request: dict[str, Any], policy: str, scores: list[float]) -> list[int]:
    baseline = plain.best_first(scores)
    if policy == POLICY_IDENTIFIERS:
        split_query = plain.words(plain.split_identifiers(request["query"]))
        split_texts = [plain.split_identifiers(document["text"]) for document in request["documents"]]
        return plain.alternate(baseline, plain.best_first(plain.bm25(split_query, split_texts, bm25.natural_log)))
    if policy == POLICY_HINTS:
        ids = [document["id"] for document in request["documents"]]
        return plain.alternate([ids.index(name) for name in request["hints"]["candidate_ids"]], baseline)
    return baseline


@pytest.mark.parametrize("policy", POLICIES)
@given(st.data())
def test_a_ranking_is_the_plain_reading_of_its_policy(policy: str, data: st.DataObject) -> None:
    ask = data.draw(asks(policy))
    ranking = _rank(ask)
    texts = [document["text"] for document in ask.request["documents"]]
    scores = plain.bm25(plain.words(ask.request["query"]), texts, bm25.natural_log)
    order = _plain_order(ask.request, policy, scores)
    assert ranking.policy == policy
    assert ranking.snapshot_id == ask.request["snapshot_id"]
    assert ranking.ids.at(np.arange(len(ranking.ids))) == [document["id"] for document in ask.request["documents"]]
    assert ranking.scores.tolist() == scores
    assert ranking.order.tolist() == order
    assert ranking.sha256 == plain.ranking_sha256(ask.request, ask.options.identifier_hints, policy, order, scores)


@pytest.mark.parametrize(
    "change",
    [
        {"snapshot_id": "s2"},
        {"query": "Parse"},
        {"documents": [{"id": f"d{position}", "text": "parse The request " * position} for position in range(3)]},
        {"documents": [{"id": f"D{position}", "text": "parse the request " * position} for position in range(3)]},
        {"hints": {"snapshot_id": "s1", "query": "parse", "candidate_ids": []}},
    ],
    ids=["snapshot", "query", "text", "id", "hints"],
)
def test_the_digest_covers_all_that_was_asked(change: dict[str, object]) -> None:
    limits = Limits()
    rankings = [
        rank(decode_request(encode(request), limits, identifier_hints=False), limits, identifier_hints=False)
        for request in (small_request(), small_request(**change))
    ]
    assert rankings[0].scores.tolist() == rankings[1].scores.tolist()
    assert rankings[0].sha256 != rankings[1].sha256


@pytest.mark.parametrize("count", [1, 64, 65, 200])
def test_the_digest_is_the_plain_one_however_many_documents_there_are(count: int) -> None:
    # Strings that look like what the digest is taken over.
    documents = [{"id": f"d{place}", "text": f'"documents":[{place}]<\u2028' * place} for place in range(count)]
    request = small_request(snapshot_id='"documents":', query='"documents":', documents=documents)
    ranking = _rank(Ask(request, Options()))
    scores = ranking.scores.tolist()
    assert ranking.sha256 == plain.ranking_sha256(request, False, POLICY_BASELINE, ranking.order.tolist(), scores)


def _identifier_policy(query: str, text: str, limits: Limits) -> str:
    request = small_request(query=query, documents=[{"id": "d", "text": text}])
    return rank(decode_request(encode(request), limits, identifier_hints=True), limits, identifier_hints=True).policy


def test_identifiers_are_out_of_scope_when_the_split_query_is_one_byte_too_long() -> None:
    # `aB` grows by one byte when split.
    fits, breaks = "x" * 8189 + "aB", "x" * 8190 + "aB"
    assert _identifier_policy(fits, "text", Limits()) == POLICY_IDENTIFIERS
    assert _identifier_policy(breaks, "text", Limits()) == POLICY_IDENTIFIERS_OUT_OF_SCOPE


def test_identifiers_are_out_of_scope_when_the_split_texts_are_one_byte_too_long() -> None:
    limits = Limits(max_text_bytes=20)
    assert _identifier_policy("query", "é" * 8 + " aB", limits) == POLICY_IDENTIFIERS
    assert _identifier_policy("query", "é" * 8 + "  aB", limits) == POLICY_IDENTIFIERS_OUT_OF_SCOPE


@pytest.mark.parametrize("query", ["?!", "²", "_", "\u0301"])
def test_identifiers_are_out_of_scope_when_the_query_has_no_words(query: str) -> None:
    assert _identifier_policy(query, "text", Limits()) == POLICY_IDENTIFIERS_OUT_OF_SCOPE


def test_hints_given_as_null_are_no_hints() -> None:
    limits = Limits()
    without, null = (
        rank(decode_request(encode(request), limits, identifier_hints=False), limits, identifier_hints=False)
        for request in (small_request(), small_request(hints=None))
    )
    assert null.policy == POLICY_BASELINE
    assert null.sha256 == without.sha256


@pytest.mark.parametrize("policy", POLICIES)
@given(st.data())
def test_a_ranking_keeps_no_text_and_no_query(policy: str, data: st.DataObject) -> None:
    ranking = _rank(data.draw(asks(policy)))
    assert msgspec.structs.asdict(ranking).keys() == {"snapshot_id", "policy", "ids", "order", "scores", "sha256"}
    assert ranking.order.dtype.hasobject is ranking.scores.dtype.hasobject is False
    assert ranking.order.base is ranking.scores.base is None
