"""The client's side of a session without sockets: what may be called when, and what received bytes mean."""

import itertools
from collections.abc import Callable, Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell import Candidate, Grant, Page, ProtocolViolated
from hintcell import conversation as module
from hintcell.conversation import Conversation
from hintcell_manager.protocol import (
    MAX_DOOR_LINE_BYTES,
    Admitted,
    Attached,
    OpenRequest,
    Refused,
    door_requests,
    encode_line,
)
from hintcell_worker import protocol as wire
from tests.client.searches import catalog

GRANT = Grant("alice", ("repo:api",), "manager", 3)
ADMITTED = Admitted("session", 4711)
REFUSED = Refused("permission_changed", "ask for a new grant")

CANDIDATES = [Candidate("ü.py:1:read", 3, 1.5), Candidate("b.py:2:\u2028", 4, 0.0)]
# The last page leaves `next_cursor` out; the page before it does not.
PAGE = wire.Page(total_candidates=4, offset=2, returned=2, ranking_sha256="d1")
RESPONSE = wire.Response(wire.SCHEMA, "snapshot", wire.STATUS, "bm25_complete", CANDIDATES, PAGE)


def line(response: object) -> bytes:
    return msgspec.json.encode(response) + b"\n"


def changed(**changes: object) -> bytes:
    return line(msgspec.structs.replace(RESPONSE, **changes))


def changed_page(**changes: object) -> bytes:
    return changed(page=msgspec.structs.replace(PAGE, **changes))


def knocking() -> Conversation:
    return Conversation(GRANT, "snapshot", 20, identifier_hints=True)


def ready() -> Conversation:
    conversation = knocking()
    assert conversation.receive(encode_line(ADMITTED)) == ADMITTED
    return conversation


def waiting() -> Conversation:
    conversation = ready()
    conversation.request("query", catalog(2), None)
    return conversation


def turning() -> Conversation:
    """Ready for the second page."""
    conversation = waiting()
    assert conversation.receive(line(RESPONSE)) is not None
    return conversation


def refused() -> Conversation:
    conversation = knocking()
    assert conversation.receive(encode_line(REFUSED)) == REFUSED
    return conversation


def over() -> Conversation:
    conversation = turning()
    conversation.over()
    return conversation


CALLS: dict[str, Callable[[Conversation], object]] = {
    "knock": lambda conversation: conversation.knock(),
    "request": lambda conversation: conversation.request("query", [], None),
    "continuation": lambda conversation: conversation.continuation("cursor", 5),
    "receive": lambda conversation: conversation.receive(b" "),
}
STATES: dict[Callable[[], Conversation], set[str]] = {
    knocking: {"knock", "request", "receive"},
    ready: {"request", "continuation"},
    waiting: {"receive"},
    turning: {"request", "continuation"},
    refused: set(),
    over: set(),
}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
@pytest.mark.parametrize("call", CALLS)
def test_each_call_is_valid_in_its_state_and_in_no_other(state: Callable[[], Conversation], call: str) -> None:
    conversation = state()
    if call in STATES[state]:
        CALLS[call](conversation)
    else:
        with pytest.raises(ProtocolViolated):
            CALLS[call](conversation)


def test_a_request_can_be_made_before_it_may_be_sent_and_only_once() -> None:
    conversation = knocking()
    conversation.knock()
    line = conversation.request("query", [], None)
    with pytest.raises(ProtocolViolated):
        conversation.request("query", [], None)
    assert isinstance(conversation.receive(encode_line(Admitted("id", 7))), Admitted)
    assert conversation.is_waiting
    assert line == ready().request("query", [], None)
    with pytest.raises(ProtocolViolated):
        conversation.continuation("cursor", 5)


def test_the_knock_says_under_which_grant_and_how_to_rank() -> None:
    assert door_requests.decode(knocking().knock()) == OpenRequest(GRANT, "snapshot", 20, identifier_hints=True)


def test_a_request_and_a_continuation_are_one_line_each_and_hold_what_was_given() -> None:
    documents = catalog(2)
    hints = wire.Hints("snapshot", "a\nb", ["file.py:1"])
    sent = ready().request("a\nb", documents, hints)
    assert sent.count(b"\n") == 1
    assert msgspec.json.decode(sent, type=wire.Request) == wire.Request("snapshot", "a\nb", documents, hints)
    sent = turning().continuation("c\n", 7)
    assert sent.count(b"\n") == 1
    assert msgspec.json.decode(sent, type=wire.Continuation) == wire.Continuation("c\n", 7)


def test_a_page_has_all_that_the_worker_said() -> None:
    expected = Page(tuple(CANDIDATES), 4, 2, None, "bm25_complete", "snapshot", "d1")
    assert waiting().receive(line(RESPONSE)) == expected
    assert waiting().receive(changed_page(next_cursor="c")) == msgspec.structs.replace(expected, next_cursor="c")


def feed(conversation: Conversation, chunks: Iterable[bytes]) -> list[object]:
    """What the chunks complete, in order."""
    return [result for chunk in chunks if (result := conversation.receive(chunk)) is not None]


@given(st.sets(st.integers(1, len(line(RESPONSE)) - 1)))
def test_the_same_bytes_give_the_same_page_whatever_the_chunking(cuts: set[int]) -> None:
    data = line(RESPONSE)
    edges = [0, *sorted(cuts), len(data)]
    chunks = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert feed(waiting(), chunks) == [waiting().receive(data)]


@pytest.mark.parametrize(
    ("state", "data", "result"),
    [(knocking, encode_line(ADMITTED), ADMITTED), (knocking, encode_line(REFUSED), REFUSED), (waiting, b"", None)],
    ids=["admitted", "refused", "page"],
)
def test_an_answer_may_come_one_byte_at_a_time(state: Callable[[], Conversation], data: bytes, result: object) -> None:
    data = data or line(RESPONSE)
    expected = result or waiting().receive(data)
    assert feed(state(), (data[place : place + 1] for place in range(len(data)))) == [expected]


def test_a_truncated_answer_is_no_answer() -> None:
    assert waiting().receive(line(RESPONSE)[:-1]) is None


def test_a_carriage_return_before_the_line_end_changes_nothing() -> None:
    data = line(RESPONSE)
    assert waiting().receive(data[:-1] + b"\r\n") == waiting().receive(data)


@pytest.mark.parametrize("extra", [line(RESPONSE), b"{", b"\n", b" "], ids=["another", "begun", "empty", "space"])
@pytest.mark.parametrize("state", [knocking, waiting], ids=["door", "worker"])
def test_more_than_one_answer_in_a_chunk_is_a_violation(state: Callable[[], Conversation], extra: bytes) -> None:
    answer = encode_line(ADMITTED) if state is knocking else line(RESPONSE)
    with pytest.raises(ProtocolViolated, match="more than one"):
        state().receive(answer + extra)


def test_bytes_that_came_before_they_were_asked_for_are_a_violation() -> None:
    with pytest.raises(ProtocolViolated, match="nobody had asked"):
        turning().receive(line(RESPONSE))


@pytest.mark.parametrize("state", [knocking, waiting], ids=["door", "worker"])
def test_a_line_over_its_limit_is_refused_before_its_end(
    state: Callable[[], Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RESPONSE_BYTES", 2 * MAX_DOOR_LINE_BYTES)
    limit = MAX_DOOR_LINE_BYTES if state is knocking else 2 * MAX_DOOR_LINE_BYTES
    conversation = state()
    assert conversation.receive(b" " * limit) is None
    with pytest.raises(ProtocolViolated, match=f"over {limit} bytes"):
        conversation.receive(b" ")


def test_whether_a_line_is_over_its_limit_does_not_depend_on_the_chunking(monkeypatch: pytest.MonkeyPatch) -> None:
    data = line(RESPONSE)
    monkeypatch.setattr(module, "MAX_RESPONSE_BYTES", len(data) - 2)
    with pytest.raises(ProtocolViolated, match="over"):
        feed(waiting(), [data[:-1], data[-1:]])
    with pytest.raises(ProtocolViolated, match="over"):
        waiting().receive(data)


BAD_PAGES = {
    "not JSON": b"Traceback (most recent call last):\n",
    "empty": b"\n",
    "not UTF-8": line(RESPONSE).replace(b"snapshot", b"snap\xffhot", 1),
    "another thing": b"[1]\n",
    "a missing field": b'{"schema":"riido-hints-v1"}\n',
    "a wrong type": line(RESPONSE).replace(b"1.5", b'"1.5"'),
    "another schema": changed(schema="riido-hints-v2"),
    "no page": changed(page=msgspec.UNSET),
    "a wrong count": changed_page(returned=3),
}


@pytest.mark.parametrize("data", BAD_PAGES.values(), ids=BAD_PAGES)
def test_what_is_no_page_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolated):
        waiting().receive(data)


@pytest.mark.parametrize("data", [b"hello\n", b"\n", encode_line(Attached("i", 1, "/run", "c"))])
def test_what_is_no_answer_to_a_knock_is_a_violation(data: bytes) -> None:
    with pytest.raises(ProtocolViolated):
        knocking().receive(data)


def test_a_page_of_another_ranking_is_a_violation() -> None:
    conversation = turning()
    conversation.continuation("cursor", 2)
    with pytest.raises(ProtocolViolated, match="ranking"):
        conversation.receive(changed_page(ranking_sha256="d2"))


def test_a_page_of_another_snapshot_is_a_violation() -> None:
    with pytest.raises(ProtocolViolated):
        waiting().receive(changed(snapshot_id="another"))


def test_nothing_is_delivered_after_a_violation() -> None:
    conversation = waiting()
    with pytest.raises(ProtocolViolated):
        conversation.receive(b"garbage\n")
    with pytest.raises(ProtocolViolated):
        conversation.receive(line(RESPONSE))


def test_over_discards_what_had_begun_to_arrive() -> None:
    conversation = waiting()
    data = line(RESPONSE)
    assert conversation.receive(data[:50]) is None
    conversation.over()
    with pytest.raises(ProtocolViolated):
        conversation.receive(data[50:])
