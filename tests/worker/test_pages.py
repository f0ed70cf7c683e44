"""All pages of a session, whatever their sizes, are the whole ranking, under each policy."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.cursor import encode_cursor
from tests.contract.conformance import converse
from tests.worker.requests import POLICIES, Ask, asks, encode, small_request

_sizes = st.lists(st.integers(1, 5) | st.just(4096), min_size=1, max_size=4)


def _whole(ask: Ask) -> dict[str, Any]:
    """The answer that lists every candidate at once."""
    [answer], error = converse(ask.options, [encode(ask.request)])
    assert error is None
    return dict(json.loads(answer))


def _session(ask: Ask, limit: int) -> tuple[Conversation, dict[str, Any]]:
    """An open session and its first answer."""
    conversation = Conversation(msgspec.structs.replace(ask.options, session=True, limit=limit))
    [answer] = conversation.receive(encode(ask.request))
    return conversation, json.loads(answer)


def _walk(ask: Ask, sizes: list[int]) -> list[dict[str, Any]]:
    """Every answer of one session, asking for pages of these sizes in turn, from the first page to the last."""
    turns = itertools.cycle(sizes)
    conversation, answer = _session(ask, next(turns))
    answers = [answer]
    while cursor := answers[-1]["page"].get("next_cursor"):
        assert len(answers) <= answer["page"]["total_candidates"], "the pages never end"
        assert len(answers) < len(ask.request["documents"]), "there are more pages than documents"
        [line] = conversation.receive(encode({"cursor": cursor, "limit": next(turns)}))
        assert line.count(b"\n") == 1
        answers.append(json.loads(line))
    assert list(conversation.end_of_input()) == []
    return answers


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data(), sizes=_sizes)
def test_all_pages_are_the_whole_ranking_in_its_order(policy: str, data: st.DataObject, sizes: list[int]) -> None:
    ask = data.draw(asks(policy))
    whole, answers = _whole(ask), _walk(ask, sizes)
    assert [candidate for answer in answers for candidate in answer["candidates"]] == whole["candidates"]
    assert [candidate["inspection_rank"] for candidate in whole["candidates"]] == [
        *range(1, len(ask.request["documents"]) + 1)
    ]
    assert {answer["policy"] for answer in [whole, *answers]} == {policy}


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data(), sizes=_sizes)
def test_pages_tell_where_they_lie(policy: str, data: st.DataObject, sizes: list[int]) -> None:
    ask = data.draw(asks(policy))
    total = len(ask.request["documents"])
    answers = _walk(ask, sizes)
    offset = 0
    for answer, size in zip(answers, itertools.cycle(sizes), strict=False):
        page = answer["page"]
        returned = min(size, total - offset)
        assert (page["total_candidates"], page["offset"], page["returned"]) == (total, offset, returned)
        assert len(answer["candidates"]) == returned
        assert page["ranking_sha256"] == answers[0]["page"]["ranking_sha256"]
        offset += returned
        if offset < total:
            assert page["next_cursor"] == encode_cursor(offset, page["ranking_sha256"])
        else:
            assert "next_cursor" not in page
    assert offset == total


@given(data=st.data(), sizes=_sizes)
def test_answers_have_the_protocols_fields_and_no_other(data: st.DataObject, sizes: list[int]) -> None:
    ask = data.draw(asks(data.draw(st.sampled_from(POLICIES))))
    for answer in [_whole(ask), *_walk(ask, sizes)]:
        page = answer.pop("page", {})
        assert list(answer) == ["schema", "snapshot_id", "status", "policy", "candidates"]
        assert (answer["schema"], answer["status"]) == ("riido-hints-v1", "unverified")
        assert answer["snapshot_id"] == ask.request["snapshot_id"]
        for candidate in answer["candidates"]:
            assert list(candidate) == ["candidate_id", "inspection_rank", "bm25_score"]
        assert list(page) in (
            [],
            ["total_candidates", "offset", "returned", "ranking_sha256"],
            ["total_candidates", "offset", "returned", "ranking_sha256", "next_cursor"],
        )


@pytest.mark.parametrize("policy", POLICIES)
@given(data=st.data(), sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_a_single_request_with_the_cursor_gives_the_sessions_page(
    policy: str, data: st.DataObject, sizes: tuple[int, int]
) -> None:
    ask = data.draw(asks(policy))
    pages = _walk(ask, list(sizes))
    for page, size, cursor in zip(pages, sizes, ["", pages[0]["page"].get("next_cursor", "")], strict=False):
        options = msgspec.structs.replace(ask.options, limit=size, cursor=cursor)
        [answer], error = converse(options, [encode(ask.request)])
        assert error is None
        assert json.loads(answer) == page


@given(data=st.data(), offsets=st.lists(st.floats(0, 1), max_size=6), limit=st.integers(1, 5))
def test_any_place_of_the_ranking_may_be_asked_for_in_any_order(
    data: st.DataObject, offsets: list[float], limit: int
) -> None:
    ask = data.draw(asks(data.draw(st.sampled_from(POLICIES))))
    total = len(ask.request["documents"])
    whole = _whole(ask)["candidates"]
    conversation, first = _session(ask, 1)
    for place in offsets if total > 1 else []:
        offset = 1 + int(place * (total - 2))
        cursor = encode_cursor(offset, first["page"]["ranking_sha256"])
        [line] = conversation.receive(encode({"cursor": cursor, "limit": limit}))
        assert json.loads(line)["candidates"] == whole[offset : offset + limit]


def test_a_page_of_4096_of_4096_documents_is_the_last() -> None:
    documents = [{"id": f"d{position}", "text": "x"} for position in range(4096)]
    [answer] = _walk(Ask(small_request(documents=documents), Options()), [4096])
    assert len(answer["candidates"]) == 4096
    assert "next_cursor" not in answer["page"]
