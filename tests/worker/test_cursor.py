"""Cursors: their form, and that none but this ranking's own are accepted."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker.cursor import MAX_CURSOR_BYTES, decode_cursor, encode_cursor
from hintcell_worker.protocol import RequestError

_SHA256 = "0123456789abcdef" * 4
_OTHER_SHA256 = "f" * 64
_TOTAL = 10


def _cursor(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _content(**changes: object) -> str:
    return json.dumps({"v": 1, "o": 3, "h": _SHA256} | changes, separators=(",", ":"))


def test_a_cursor_is_unpadded_urlsafe_base64_of_version_offset_and_digest() -> None:
    assert encode_cursor(3, _SHA256) == _cursor(f'{{"v":1,"o":3,"h":"{_SHA256}"}}')


@given(st.integers(2, 4096), st.data())
def test_a_cursor_reads_back_as_its_offset(total: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(1, total - 1))
    cursor = encode_cursor(offset, _SHA256)
    assert len(cursor) <= MAX_CURSOR_BYTES
    assert decode_cursor(cursor, _SHA256, total) == offset


@pytest.mark.parametrize("offset", [1, _TOTAL - 1])
def test_an_offset_at_either_end_of_the_ranking_is_accepted(offset: int) -> None:
    assert decode_cursor(encode_cursor(offset, _SHA256), _SHA256, _TOTAL) == offset


@pytest.mark.parametrize("offset", [0, -1, _TOTAL, _TOTAL + 1, 2**63, 2**70])
def test_an_offset_outside_the_ranking_is_refused(offset: int) -> None:
    with pytest.raises(RequestError, match="outside this ranking of 10"):
        decode_cursor(_cursor(_content(o=offset)), _SHA256, _TOTAL)


def test_a_cursor_of_another_ranking_is_refused() -> None:
    with pytest.raises(RequestError, match="belongs to another ranking"):
        decode_cursor(encode_cursor(3, _OTHER_SHA256), _SHA256, _TOTAL)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_a_cursor_of_another_version_is_refused(version: int) -> None:
    with pytest.raises(RequestError, match=f"has version {version}"):
        decode_cursor(_cursor(_content(v=version)), _SHA256, _TOTAL)


@pytest.mark.parametrize(
    "content",
    [
        _content(x=1),
        _content(v="1"),
        _content(v=1.0),
        _content(v=True),
        _content(o="3"),
        _content(o=3.5),
        _content(o=None),
        _content(h=None),
        _content(h=[_SHA256]),
        f'{{"o":3,"h":"{_SHA256}"}}',
        f'{{"v":1,"h":"{_SHA256}"}}',
        '{"v":1,"o":3}',
        "{}",
        "[]",
        "null",
        _content() + "{}",
        _content()[:-1],
        "[" * 190,
        b"\xff" * 100,
        _content().replace("0123", "\\ud800").encode(),
    ],
)
def test_a_cursor_with_other_content_is_refused(content: str | bytes) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        decode_cursor(_cursor(content), _SHA256, _TOTAL)


@pytest.mark.parametrize(
    "cursor",
    ["", "!", "a b", "a=", "abc=", "a+/b", "é", "٣", "abc\n", "\nabc", "ａ", encode_cursor(3, _SHA256) + "="],
)
def test_what_is_not_unpadded_urlsafe_base64_is_refused(cursor: str) -> None:
    with pytest.raises(RequestError, match="not URL-safe base64"):
        decode_cursor(cursor, _SHA256, _TOTAL)


def test_a_cursor_is_accepted_at_256_bytes_and_refused_one_over() -> None:
    at_limit = _cursor(_content().ljust(192))
    assert len(at_limit) == MAX_CURSOR_BYTES == 256
    assert decode_cursor(at_limit, _SHA256, _TOTAL) == 3
    with pytest.raises(RequestError, match="over 256 bytes"):
        decode_cursor(at_limit + "A", _SHA256, _TOTAL)


@given(st.text(max_size=300) | st.binary(max_size=192).map(_cursor))
def test_noise_is_refused(noise: str) -> None:
    with pytest.raises(RequestError):
        decode_cursor(noise, _SHA256, _TOTAL)


@given(st.integers(0, 200), st.characters(exclude_categories=["Cs"]))
def test_a_changed_cursor_is_refused_or_names_another_place(place: int, character: str) -> None:
    cursor = encode_cursor(3, _SHA256)
    changed = cursor[: place % len(cursor)] + character + cursor[place % len(cursor) + 1 :]
    try:
        offset = decode_cursor(changed, _SHA256, _TOTAL)
    except RequestError:
        return
    assert 0 < offset < _TOTAL
