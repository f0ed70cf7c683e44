"""The conversation without I/O: sizes of lines, when answers come, and what is held between them."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.protocol import Limits, Request, RequestError
from tests.contract.conformance import converse
from tests.worker.requests import encode, small_request

_MEBIBYTE = 2**20
_SESSION = Options(session=True, limit=1)
_SINGLE = Options()
_BOTH_MODES = pytest.mark.parametrize("options", [_SESSION, _SINGLE], ids=["session", "single"])


def _padded(line: bytes, size: int) -> bytes:
    """The same JSON value in a line of `size` bytes, newline included."""
    return line.rstrip(b"\n").ljust(size - 1) + b"\n"


def _opened() -> tuple[Conversation, bytes]:
    """A session after its first page, and the continuation that asks for the next."""
    conversation = Conversation(_SESSION)
    [answer] = conversation.receive(encode(small_request()))
    return conversation, encode({"cursor": json.loads(answer)["page"]["next_cursor"], "limit": 1})


@_BOTH_MODES
def test_a_request_is_accepted_at_16_mebibytes_newline_included(options: Options) -> None:
    line = _padded(encode(small_request()), 16 * _MEBIBYTE)
    answers, error = converse(options, (line[start : start + _MEBIBYTE] for start in range(0, len(line), _MEBIBYTE)))
    assert error is None
    assert answers == converse(options, [encode(small_request())]).answers


@_BOTH_MODES
def test_a_request_is_refused_one_byte_over_16_mebibytes(options: Options) -> None:
    for line in (_padded(encode(small_request()), 16 * _MEBIBYTE + 1), b" " * (16 * _MEBIBYTE + 1)):
        answers, error = converse(options, [line])
        assert answers == []
        assert "over 16777216 bytes" in str(error)


@_BOTH_MODES
def test_a_request_over_its_limit_is_refused_before_its_end(options: Options) -> None:
    conversation = Conversation(options)
    for _ in range(16):
        assert list(conversation.receive(b" " * _MEBIBYTE)) == []
    with pytest.raises(RequestError, match="the request has over 16777216 bytes"):
        list(conversation.receive(b" "))


@_BOTH_MODES
def test_another_limit_of_the_request_is_kept_when_given(options: Options) -> None:
    line = encode(small_request())
    for spare, refused in ((0, False), (-1, True)):
        limits = Limits(max_request_bytes=len(line) + spare)
        assert (converse(msgspec.structs.replace(options, limits=limits), [line]).error is not None) == refused


def test_a_continuation_is_accepted_at_1024_bytes_and_refused_one_over() -> None:
    conversation, continuation = _opened()
    assert len(list(conversation.receive(_padded(continuation, 1024)))) == 1
    with pytest.raises(RequestError, match="the continuation line has over 1024 bytes"):
        list(conversation.receive(_padded(continuation, 1025)))


def test_a_continuation_over_its_limit_is_refused_before_its_newline() -> None:
    conversation, _ = _opened()
    assert list(conversation.receive(b" " * 1024)) == []
    with pytest.raises(RequestError, match="the continuation line has over 1024 bytes"):
        list(conversation.receive(b" "))


def test_the_limit_of_a_continuation_holds_for_each_line_and_not_for_their_sum() -> None:
    conversation, continuation = _opened()
    lines = _padded(continuation, 1000) * 50
    assert len(list(conversation.receive(lines + b" " * 1024))) == 50


def test_the_request_may_be_longer_than_a_continuation_when_both_arrive_together() -> None:
    _, continuation = _opened()
    request = _padded(encode(small_request()), 2 * _MEBIBYTE)
    assert len(converse(_SESSION, [request + continuation]).answers) == 2


def test_an_answer_comes_as_soon_as_its_line_is_complete() -> None:
    conversation = Conversation(_SESSION)
    request = encode(small_request())
    assert list(conversation.receive(request[:-1])) == []
    [answer] = conversation.receive(request[-1:])
    assert answer.endswith(b"}\n")
    assert answer.count(b"\n") == 1


def test_a_single_request_is_answered_at_the_end_of_input_and_not_before() -> None:
    conversation = Conversation(_SINGLE)
    assert list(conversation.receive(encode(small_request()))) == []
    [answer] = conversation.end_of_input()
    assert answer.startswith(b"{\n  ")
    assert answer.endswith(b"\n}\n")


def test_a_bad_line_loses_no_answer_to_an_earlier_one_in_the_same_chunk() -> None:
    _, continuation = _opened()
    answers, error = converse(_SESSION, [encode(small_request()) + continuation + b"bad\n" + continuation])
    assert len(answers) == 2
    assert error is not None


def test_a_line_left_over_at_the_end_of_a_session_is_answered() -> None:
    conversation, continuation = _opened()
    assert list(conversation.receive(continuation.rstrip())) == []
    assert len(list(conversation.end_of_input())) == 1


@_BOTH_MODES
def test_no_input_at_all_is_refused(options: Options) -> None:
    answers, error = converse(options, [])
    assert answers == []
    assert "the input is empty" in str(error)


def test_a_session_without_continuations_ends_well() -> None:
    conversation, _ = _opened()
    assert list(conversation.end_of_input()) == []


def test_a_second_request_in_a_session_is_refused() -> None:
    conversation, _ = _opened()
    with pytest.raises(RequestError, match="the continuation"):
        list(conversation.receive(encode(small_request())))


@pytest.mark.parametrize(
    "options",
    [
        Options(limit=-1),
        Options(limit=4097),
        Options(session=True),
        Options(session=True, limit=0),
        Options(session=True, limit=4097),
        Options(session=True, limit=1, cursor="c"),
        Options(cursor="c"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: Options) -> None:
    with pytest.raises(RequestError):
        Conversation(options)


@pytest.mark.parametrize("limit", [1, 4096])
def test_a_page_limit_is_accepted_at_both_ends(limit: int) -> None:
    Options(limit=limit, cursor="c").check()
    Options(session=True, limit=limit, identifier_hints=True).check()


class _Witness(Conversation):
    """A conversation whose request's strings a test holds on to, to count who else does."""

    strings: list[str]

    def _rank(self, request: Request) -> Any:
        ranking = super()._rank(request)
        self.strings = [request.query, *(document.text for document in request.documents)]
        return ranking


def _holders(strings: list[str]) -> Iterator[int]:
    """For each string, how many references there are besides the list's own."""
    control = [f"control of {len(strings)}"]
    own = sys.getrefcount(control[0])
    for position in range(len(strings)):
        yield sys.getrefcount(strings[position]) - own


@pytest.mark.parametrize(
    "options", [_SESSION, Options(session=True, limit=1, identifier_hints=True)], ids=["baseline", "identifiers"]
)
def test_after_the_first_page_nothing_holds_the_query_or_a_text(options: Options) -> None:
    conversation = _Witness(options)
    answers = conversation.receive(encode(small_request(query="parseRequest", documents=_documents())))
    answer = next(answers)
    # Now, as while the worker writes the first page and waits for the next line, `receive` has not even returned.
    assert list(_holders(conversation.strings)) == [0] * 4
    assert list(answers) == []
    assert list(_holders(conversation.strings)) == [0] * 4
    continuation = encode({"cursor": json.loads(answer)["page"]["next_cursor"], "limit": 1})
    assert len(list(conversation.receive(continuation))) == 1


def _documents() -> list[dict[str, str]]:
    return [{"id": f"d{position}", "text": f"parseRequest {position} é"} for position in range(3)]


def test_after_the_first_page_the_input_is_empty() -> None:
    conversation, continuation = _opened()
    assert conversation._input == b""
    list(conversation.receive(continuation * 2))
    assert conversation._input == b""


def test_while_ranking_the_input_is_already_given_up() -> None:
    held: list[int] = []

    class Probe(Conversation):
        def _rank(self, request: Request) -> Any:
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_name != "receive":
                held.extend(len(value) for value in frame.f_locals.values() if isinstance(value, bytearray))
                frame = frame.f_back
            held.append(len(self._input))
            return super()._rank(request)

    conversation = Probe(_SESSION)
    assert len(list(conversation.receive(encode(small_request())))) == 1
    assert held
    assert set(held) == {0}
