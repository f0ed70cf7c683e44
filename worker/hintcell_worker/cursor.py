"""Cursors: where the next page of one ranking starts.

A cursor is unpadded URL-safe base64 of `{"v":1,"o":OFFSET,"h":RANKING_SHA256}`. It checks that a continuation
belongs to the ranking it is put to; it is not a credential and hides nothing.
"""

import base64
import binascii
import re
from typing import Final

import msgspec

from hintcell_worker.protocol import RequestError

MAX_CURSOR_BYTES: Final = 256
_VERSION: Final = 1
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class _Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    v: int
    o: int
    h: str


_DECODER = msgspec.json.Decoder(_Cursor)


def encode_cursor(offset: int, ranking_sha256: str) -> str:
    """The cursor of the page that starts at `offset` (0-based) of the ranking with this digest."""
    token = base64.urlsafe_b64encode(msgspec.json.encode(_Cursor(_VERSION, offset, ranking_sha256)))
    return token.rstrip(b"=").decode()


def decode_cursor(cursor: str, ranking_sha256: str, total: int) -> int:
    """The offset that `cursor` names, which lies strictly between 0 and `total`.

    Raises:
        RequestError: it is no cursor, or belongs to another ranking, or points outside this one.
    """
    if len(cursor) > MAX_CURSOR_BYTES:
        raise RequestError(f"the cursor has over {MAX_CURSOR_BYTES} bytes: use next_cursor as the last page gave it")
    if not _ALPHABET.fullmatch(cursor):
        raise RequestError("the cursor is not URL-safe base64: use next_cursor as the last page gave it")
    try:
        content = _DECODER.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, msgspec.MsgspecError, RecursionError) as error:
        raise RequestError("the cursor cannot be read: use next_cursor as the last page gave it") from error
    if content.v != _VERSION:
        raise RequestError(f"the cursor has version {content.v}: this worker reads version {_VERSION}")
    if content.h != ranking_sha256:
        raise RequestError("the cursor belongs to another ranking: start again from the first page")
    if not 0 < content.o < total:
        raise RequestError(
            f"the cursor points to {content.o}, outside this ranking of {total}: use next_cursor as given"
        )
    return content.o
