"""Requests that the SDK cannot read, though they have an id; mostly half of a surrogate pair stands in a string.

It passes over such a line of standard input, and whoever wrote it would wait for ever. Over HTTP it answers by itself.
"""

import json
from collections.abc import AsyncIterable
from typing import Final, Protocol, cast

from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

_UNREADABLE: Final = ErrorData(
    code=PARSE_ERROR,
    message="the request is not JSON that can be read: correct it (half of a surrogate pair is no character)",
)

Read = SessionMessage | Exception


class _Answers(Protocol):
    async def send(self, item: SessionMessage, /) -> None: ...


async def hand_on(read: AsyncIterable[Read], to: MemoryObjectSendStream[Read], answers: _Answers) -> None:
    """Hand on what was read, to its end, but answer requests that could not be read."""
    async with to:
        async for item in read:
            answer = _answer(item) if isinstance(item, ValidationError) else None
            if answer is None:
                await to.send(item)
            else:
                await answers.send(SessionMessage(answer))


def _answer(error: ValidationError) -> JSONRPCError | None:
    """The answer to a line; None if it is no request with an id that can be written."""
    try:
        request: object = json.loads(error.errors()[0]["input"])  # More lenient than pydantic.
    except (TypeError, ValueError, RecursionError):
        return None
    if not isinstance(request, dict):
        return None
    number = cast("dict[str, object]", request).get("id")
    if type(number) is int or (isinstance(number, str) and number.isascii()):
        return JSONRPCError(jsonrpc="2.0", id=number, error=_UNREADABLE)
    return None
