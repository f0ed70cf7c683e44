"""How the text of a request is read: bytes that are not UTF-8, surrogates, escapes, repeated keys, nesting."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell_worker.protocol import Limits, RequestError, decode_request
from tests.worker.requests import encode, small_request

_HEAD = b'{"snapshot_id":"s","documents":[{"id":"d","text":"t"}],"query":"x'
_TAIL = b'"}'


def _query(inside: bytes) -> str:
    """What is read as the query when these bytes stand in its string."""
    query = decode_request(_HEAD + inside + _TAIL, Limits(), identifier_hints=False).query
    assert query[0] == "x"
    return query[1:]


def _one_character_at_a_time(data: bytes) -> str:
    """UTF-8, with U+FFFD for each byte that does not belong to a character."""
    text = ""
    while data:
        for size in range(1, 5):
            try:
                text += data[:size].decode()
            except UnicodeDecodeError:
                continue
            data = data[size:]
            break
        else:
            text += "\ufffd"
            data = data[1:]
    return text


_byte_runs = st.sampled_from(
    (
        *(b"a", b"\x7f", "é".encode(), "東".encode(), "𝐀".encode()),
        *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xed\xbf\xbf"),
        *(b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xf8", b"\xfe", b"\xff"),
    )
)
_string_bytes = (
    st.lists(st.integers(0x20, 0xFF), max_size=20).map(bytes).filter(lambda data: not set(b'"\\') & set(data))
)


@given(st.lists(_byte_runs, max_size=8).map(b"".join) | _string_bytes)
@example(b"\xff\xfe")
@example(b"\xe2\x82")
@example(b"\xed\xa0\x80")
@example(b"\xf0\x9f\x98")
def test_each_byte_that_is_not_utf8_reads_as_one_replacement_character(inside: bytes) -> None:
    assert _query(inside) == _one_character_at_a_time(inside)


_escapes = st.lists(
    st.sampled_from(
        (
            *(r"\ud800", r"\uD83D", r"\udBFF", r"\uDC00", r"\ude00", r"\udfFF", r"\ud7ff", r"\ue000", r"\ufffd"),
            *(r"\u0041", r"\\", r"\"", r"\n", r"\/", r"\\ud800", "u", "d", "ud800", "é", "😀"),
        )
    ),
    max_size=8,
).map("".join)


@given(_escapes)
@example(r"\ud83d\ude00")
@example(r"\ud83d\ud83d\ude00")
@example(r"\ude00\ud83d")
@example(r"\\\ud800")
def test_each_lone_surrogate_escape_reads_as_one_replacement_character(inside: str) -> None:
    # Python's reader joins pairs and keeps what is lone.
    expected = re.sub("[\ud800-\udfff]", "\ufffd", json.loads(f'"{inside}"'))
    assert _query(inside.encode()) == expected


def test_both_kinds_of_damage_are_mended_together() -> None:
    assert _query(b"\xff\\ud800\xe2\x82\\ud83d\\ude00") == "\ufffd\ufffd\ufffd\ufffd😀"


def test_damage_is_mended_in_every_string() -> None:
    text = b'{"snapshot_id":"\xff","query":"\\udc00","documents":[{"id":"\xff\xff","text":"\xc3"}]}'
    request = decode_request(text, Limits(), identifier_hints=False)
    assert (request.snapshot_id, request.query) == ("\ufffd", "\ufffd")
    assert (request.documents[0].id, request.documents[0].text) == ("\ufffd\ufffd", "\ufffd")


def test_ids_that_are_equal_once_mended_repeat_each_other() -> None:
    documents = b'[{"id":"\xff","text":""},{"id":"\xfe","text":""}]'
    with pytest.raises(RequestError, match="repeats"):
        decode_request(
            b'{"snapshot_id":"s","query":"q","documents":' + documents + b"}", Limits(), identifier_hints=False
        )


def test_a_mended_byte_counts_as_the_three_bytes_it_is_read_as() -> None:
    _query(b"\xff" * 2730)
    with pytest.raises(RequestError, match="has 8194 bytes"):
        _query(b"\xff" * 2731)


@pytest.mark.parametrize("damage", [b"\xff", b"\xef\xbb\xbf", b"\\ud800"])
def test_damage_outside_a_string_is_refused(damage: bytes) -> None:
    with pytest.raises(RequestError, match="not one valid JSON value"):
        decode_request(damage + encode(small_request()), Limits(), identifier_hints=False)


@pytest.mark.parametrize(
    "inside",
    [b"\x00", b"\n", b"\x1f", b"\\x", b"\\u12", b"\\u12g4", b"\\\xff", b"\\ud83d\\u", b"\\"],
)
def test_a_string_that_is_not_json_is_refused(inside: bytes) -> None:
    with pytest.raises(RequestError, match="not one valid JSON value"):
        _query(inside)


def test_of_repeated_keys_the_last_wins() -> None:
    text = (
        b'{"snapshot_id":"s1","snapshot_id":"s2","query":"a","query":"b","documents":[],'
        b'"documents":[{"id":"x","id":"y","text":"","text":"t"}]}'
    )
    request = decode_request(text, Limits(), identifier_hints=False)
    assert (request.snapshot_id, request.query) == ("s2", "b")
    assert [(document.id, document.text) for document in request.documents] == [("y", "t")]


def test_a_key_may_be_written_with_escapes() -> None:
    assert (
        decode_request(
            encode(small_request()).replace(b'"query"', b'"\\u0071uery"'), Limits(), identifier_hints=False
        ).query
        == "parse"
    )


@pytest.mark.parametrize("opening", [b"[", b'{"hints":', b'{"documents":[', b'[{"x":'])
def test_deep_nesting_is_refused(opening: bytes) -> None:
    with pytest.raises(RequestError):
        decode_request(opening * 100_000, Limits(), identifier_hints=False)


@given(st.binary(max_size=40))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(RequestError):
        decode_request(noise, Limits(), identifier_hints=False)
