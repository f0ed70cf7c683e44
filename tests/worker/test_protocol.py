"""What a request may be: each limit at its value and one over, blanks, unknown, missing and mistyped fields.

How text is read is `test_protocol_text.py`'s; the sizes of requests and lines are `test_conversation.py`'s.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker.protocol import Limits, Request, RequestError, decode_continuation, decode_request
from tests.worker.requests import encode, small_request

_LIMITS = Limits()
# Unicode 15.0, PropList.txt, White_Space.
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
# Taken for white space by `str.isspace`, or invisible, but not White_Space.
_NOT_WHITE_SPACE = "\x00\x1c\x1d\x1e\x1f\u180e\u200b\u200d\u2060\ufeff"


def _decode(request: object, limits: Limits = _LIMITS, *, identifier_hints: bool = False) -> Request:
    return decode_request(encode(request), limits, identifier_hints=identifier_hints)


def _with_ids(*ids: str) -> dict[str, Any]:
    return small_request(documents=[{"id": name, "text": "text"} for name in ids])


def _with_texts(*texts: str) -> dict[str, Any]:
    return small_request(documents=[{"id": f"d{position}", "text": text} for position, text in enumerate(texts)])


def _with_hints(**changes: object) -> dict[str, Any]:
    return small_request(hints={"snapshot_id": "s1", "query": "parse", "candidate_ids": ["d1", "d0"]} | changes)


def test_a_small_request_is_accepted_as_it_is() -> None:
    request = _decode(small_request())
    assert (request.snapshot_id, request.query, request.hints) == ("s1", "parse", None)
    assert [document.id for document in request.documents] == ["d0", "d1", "d2"]
    assert request.documents[1].text == "parse the request "


@pytest.mark.parametrize("character", ["x", "é", "東", "𝐀"])
@pytest.mark.parametrize(
    ("limit", "field"),
    [(128, "snapshot_id"), (128, "id"), (8192, "query")],
    ids=["snapshot_id", "document-id", "query"],
)
def test_a_name_or_query_is_accepted_at_its_limit_in_bytes_and_refused_one_over(
    limit: int, field: str, character: str
) -> None:
    at_limit = character * (limit // len(character.encode()))
    at_limit += "x" * (limit - len(at_limit.encode()))
    assert len(at_limit.encode()) == limit

    def request(value: str) -> dict[str, Any]:
        return _with_ids(value) if field == "id" else small_request(**{field: value})

    _decode(request(at_limit))
    with pytest.raises(RequestError, match=f"has {limit + 1} bytes: at most {limit} are allowed"):
        _decode(request(at_limit + "x"))


def test_documents_are_accepted_at_their_limit_and_refused_one_over() -> None:
    ids = [f"d{position}" for position in range(4097)]
    assert len(_decode(_with_ids(*ids[:4096])).documents) == 4096
    with pytest.raises(RequestError, match="there are 4097 documents: at most 4096"):
        _decode(_with_ids(*ids))


@pytest.mark.parametrize("character", ["x", "é", "東", "𝐀"])
def test_text_is_accepted_at_two_mebibytes_and_refused_one_byte_over(character: str) -> None:
    half = character * (2**20 // len(character.encode()))
    rest = "x" * (2**21 - 2 * len(half.encode()))
    assert len(_decode(_with_texts(half, half, rest)).documents) == 3
    with pytest.raises(RequestError, match=f"hold {2**21 + 1} bytes of text: at most {2**21}"):
        _decode(_with_texts(half, half, rest, "x"))


def test_other_limits_are_kept_when_given() -> None:
    _decode(_with_texts("ab", "c"), Limits(max_documents=2, max_text_bytes=3))
    with pytest.raises(RequestError, match="at most 1 are"):
        _decode(_with_texts("ab", "c"), Limits(max_documents=1))
    with pytest.raises(RequestError, match="at most 2 are"):
        _decode(_with_texts("ab", "c"), Limits(max_text_bytes=2))


@pytest.mark.parametrize("field", ["snapshot_id", "query"])
@given(value=st.text(_WHITE_SPACE, max_size=5))
def test_a_blank_value_is_refused(field: str, value: str) -> None:
    with pytest.raises(RequestError, match=f"{field} is blank"):
        _decode(small_request(**{field: value}))


@given(st.text(_WHITE_SPACE, max_size=5))
def test_a_blank_document_id_is_refused(value: str) -> None:
    with pytest.raises(RequestError, match=r"documents\[1\].id is blank"):
        _decode(_with_ids("d0", value))


def test_white_space_is_25_characters_and_each_alone_is_blank() -> None:
    assert len(_WHITE_SPACE) == 25
    for character in _WHITE_SPACE:
        with pytest.raises(RequestError, match="blank"):
            _decode(small_request(query=character))


@pytest.mark.parametrize("character", _NOT_WHITE_SPACE, ids=lambda character: f"U+{ord(character):04X}")
def test_what_only_looks_blank_is_accepted(character: str) -> None:
    _decode(small_request(snapshot_id=character, query=character, documents=[{"id": character, "text": ""}]))


def test_an_empty_or_blank_text_is_accepted() -> None:
    _decode(_with_texts("", " "))


@pytest.mark.parametrize(
    "path",
    ["snapshot_id", "query", "documents", "documents.0.id", "documents.0.text", "hints.snapshot_id", "hints.query"],
)
@pytest.mark.parametrize("value", [None, 1, 1.5, True, ["x"], {"x": "y"}], ids=repr)
def test_a_value_of_another_type_is_refused(path: str, value: object) -> None:
    if path == "documents" and value == ["x"]:
        value = [["x"]]
    with pytest.raises(RequestError, match="does not fit the protocol"):
        _decode(_changed(_with_hints(), path, lambda owner, field: owner.update({field: value})))


@pytest.mark.parametrize(
    "path",
    ["snapshot_id", "query", "documents", "documents.0.id", "documents.0.text", "hints.snapshot_id", "hints.query"],
)
def test_a_missing_field_is_refused(path: str) -> None:
    with pytest.raises(RequestError, match="missing required field"):
        _decode(_changed(_with_hints(), path, lambda owner, field: owner.pop(field)))


@pytest.mark.parametrize("path", ["more", "Query", "documents.0.score", "hints.more"])
def test_an_unknown_field_is_refused(path: str) -> None:
    with pytest.raises(RequestError, match="unknown field"):
        _decode(_changed(_with_hints(), path, lambda owner, field: owner.update({field: "x"})))


def _changed(request: dict[str, Any], path: str, change: Any) -> dict[str, Any]:
    """The request after `change(object, field)` where `path` leads."""
    *way, field = path.split(".")
    owner: Any = request
    for step in way:
        owner = owner[int(step)] if step.isdigit() else owner[step]
    change(owner, field)
    return request


@pytest.mark.parametrize("request_", [None, [], "x", 1, True, [small_request()]], ids=repr)
def test_a_request_that_is_no_object_is_refused(request_: object) -> None:
    with pytest.raises(RequestError, match="does not fit the protocol"):
        _decode(request_)


def test_an_empty_catalog_is_refused() -> None:
    with pytest.raises(RequestError, match="documents is empty"):
        _decode(_with_ids())


def test_a_repeated_id_is_refused_and_both_places_are_named() -> None:
    with pytest.raises(RequestError, match=r"documents\[3\].id repeats documents\[1\].id"):
        _decode(_with_ids("a", "b", "c", "b"))


def test_ids_that_differ_only_in_case_or_normalization_are_different() -> None:
    _decode(_with_ids("a", "A", "é", "e\u0301", " a"))


def test_hints_may_be_complete_partial_or_empty() -> None:
    for hinted in (["d2", "d0", "d1"], ["d1"], []):
        hints = _decode(_with_hints(candidate_ids=hinted)).hints
        assert hints is not None
        assert hints.candidate_ids == hinted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"snapshot_id": "s2"}, "hints.snapshot_id is not the request's"),
        ({"query": "parse "}, "hints.query is not the request's"),
        ({"candidate_ids": ["d0", "d9"]}, r"candidate_ids\[1\] is not the id of a document"),
        ({"candidate_ids": ["d0", "d1", "d0"]}, r"candidate_ids\[2\] repeats"),
        ({"candidate_ids": "d0"}, "does not fit"),
        ({"candidate_ids": [0]}, "does not fit"),
    ],
)
def test_hints_that_do_not_belong_to_the_request_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        _decode(_with_hints(**changes))


def test_hints_together_with_identifier_hints_are_refused() -> None:
    with pytest.raises(RequestError, match="exclude each other"):
        _decode(_with_hints(), identifier_hints=True)
    _decode(small_request(hints=None), identifier_hints=True)


@pytest.mark.parametrize("limit", [1, 4096])
def test_a_page_limit_is_accepted_at_both_ends(limit: int) -> None:
    continuation = decode_continuation(encode({"cursor": "c", "limit": limit}))
    assert (continuation.cursor, continuation.limit) == ("c", limit)


@pytest.mark.parametrize("limit", [0, -1, 4097, 2**70, -(2**70)])
def test_a_page_limit_one_over_either_end_is_refused(limit: int) -> None:
    with pytest.raises(RequestError, match="use 1 to 4096"):
        decode_continuation(encode({"cursor": "c", "limit": limit}))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b'["c", 1]',
        b"{}",
        b'{"cursor":"c"}',
        b'{"limit":1}',
        b'{"cursor":"c","limit":1,"more":1}',
        b'{"cursor":"c","Limit":1}',
        b'{"cursor":"c","limit":1.0}',
        b'{"cursor":"c","limit":1e0}',
        b'{"cursor":"c","limit":"1"}',
        b'{"cursor":"c","limit":true}',
        b'{"cursor":"c","limit":null}',
        b'{"cursor":"c","limit":01}',
        b'{"cursor":null,"limit":1}',
        b'{"cursor":1,"limit":1}',
        b'{"cursor":"c","limit":1}{}',
        b'{"cursor":"c","limit":1}x',
        b'{"cursor":"c","limit":1,}',
        b'\xef\xbb\xbf{"cursor":"c","limit":1}',
        b'{"cursor":"\x01","limit":1}',
    ],
)
def test_a_continuation_that_is_not_exactly_one_is_refused(line: bytes) -> None:
    with pytest.raises(RequestError):
        decode_continuation(line)
