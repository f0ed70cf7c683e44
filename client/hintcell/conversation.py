"""The client's side of one session, without I/O: what to send, and what received bytes mean.

Covers the line at the door, the request, continuations and the checks on every page. Does not cover sockets,
deadlines, or noticing that the worker is gone: the shells do, after every read and before they hand a page on.

    state      call                     next
    --------   ----------------------   --------
    KNOCKING   request                  KNOCKING   (to be sent once admitted)
    KNOCKING   receive -> Admitted      READY, or WAITING if there is a request; Refused -> OVER
    READY      request                  WAITING
    WAITING    receive -> Page          READY
    READY      continuation             WAITING
    any        over, or a violation     OVER       (terminal; nothing received before counts any more)
"""

import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from hintcell.errors import ProtocolViolated, RequestRejected
from hintcell_manager.protocol import (
    MAX_DOOR_LINE_BYTES,
    Admitted,
    Grant,
    OpenRequest,
    Refused,
    door_replies,
)
from hintcell_worker.protocol import SCHEMA, Candidate, Continuation, Document, Hints, Limits, Request, Response

# 4,096 candidates with ids of 128 bytes, each escaped to six, are below 4 MiB.
MAX_RESPONSE_BYTES: Final = 8 * 1024 * 1024

_RESPONSES: Final = msgspec.json.Decoder(Response)


class Page(msgspec.Struct, frozen=True):
    """One page of a session's ranking.

    Attributes:
        candidates: best first; their `inspection_rank` counts from 1 over the whole ranking.
        total: candidates in the whole ranking.
        offset: how many stand before this page.
        next_cursor: where the next page starts; None on the last page.
        policy: how the order was made.
        snapshot_id: the snapshot that was ranked.
        ranking_sha256: names the request and its ranking, to the last bit.
    """

    candidates: tuple[Candidate, ...]
    total: int
    offset: int
    next_cursor: str | None
    policy: str
    snapshot_id: str
    ranking_sha256: str


class _State(enum.Enum):
    KNOCKING = enum.auto()
    READY = enum.auto()
    WAITING = enum.auto()
    OVER = enum.auto()


class Conversation:
    """One session from knocking to its end. Each call is valid in one state only; see the table above."""

    def __init__(
        self,
        grant: Grant,
        snapshot_id: str,
        limit: int,
        *,
        identifier_hints: bool,
        limits: Limits | None = None,
        client: str | None = None,
    ) -> None:
        self._open = OpenRequest(grant, snapshot_id, limit, identifier_hints, limits or Limits(), client)
        self._state = _State.KNOCKING
        self._has_request = False
        self._input = bytearray()
        self._ranking_sha256: str | None = None

    def knock(self) -> bytes:
        """The line to say at the door.

        Raises:
            RequestRejected: the snapshot's id cannot be written as UTF-8.
        """
        self._expect(_State.KNOCKING)
        return _encode(self._open)

    def request(self, query: str, documents: Sequence[Document], hints: Hints | None) -> bytes:
        """The request line, to be sent once admitted; before that, it can be made. It is the worker that checks it.

        Raises:
            RequestRejected: it holds text that cannot be written as UTF-8.
        """
        if self._state is not _State.KNOCKING or self._has_request:
            self._expect(_State.READY)
        line = _encode(Request(self._open.snapshot_id, query, list(documents), hints))
        self._has_request = True
        if self._state is _State.READY:
            self._state = _State.WAITING
        return line

    def continuation(self, cursor: str, limit: int) -> bytes:
        """The line that asks for the page at `cursor`.

        Raises:
            RequestRejected: the cursor cannot be written as UTF-8; the session goes on.
        """
        self._expect(_State.READY)
        line = _encode(Continuation(cursor, limit))
        self._state = _State.WAITING
        return line

    def receive(self, data: bytes) -> Admitted | Refused | Page | None:
        """Take received bytes; what they complete, if anything.

        Raises:
            ProtocolViolated: they are no answer to what was asked.
        """
        try:
            return self._receive(data)
        except ProtocolViolated:
            self.over()
            raise

    def _receive(self, data: bytes) -> Admitted | Refused | Page | None:
        if self._state not in {_State.KNOCKING, _State.WAITING}:
            raise ProtocolViolated("bytes came that nobody had asked for")
        scanned = len(self._input)
        self._input += data
        limit = MAX_DOOR_LINE_BYTES if self._state is _State.KNOCKING else MAX_RESPONSE_BYTES
        if len(self._input) > limit:
            raise ProtocolViolated(f"an answer has over {limit} bytes")
        end = self._input.find(b"\n", scanned)
        if end < 0:
            return None
        if end != len(self._input) - 1:
            raise ProtocolViolated("more than one answer came")
        line, self._input = self._input, bytearray()
        return self._admission(line) if self._state is _State.KNOCKING else self._page(line)

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is owed: who breaks off now cannot ask anything else."""
        return self._state is _State.WAITING

    def over(self) -> None:
        """The session is over: nothing received before counts any more."""
        self._state = _State.OVER
        self._input.clear()

    def _admission(self, line: bytearray) -> Admitted | Refused:
        try:
            reply = door_replies.decode(line)
        except msgspec.MsgspecError as error:
            raise ProtocolViolated(f"the door's answer cannot be read: {error}") from error
        if isinstance(reply, Admitted):
            self._state = _State.WAITING if self._has_request else _State.READY
            return reply
        if isinstance(reply, Refused):
            self._state = _State.OVER
            return reply
        raise ProtocolViolated("the door answered another question")

    def _page(self, line: bytearray) -> Page:
        try:
            response = _RESPONSES.decode(line)
        except msgspec.MsgspecError as error:
            raise ProtocolViolated(f"the worker's answer cannot be read: {error}") from error
        page = response.page
        if response.schema != SCHEMA or not isinstance(page, msgspec.Struct):
            raise ProtocolViolated("the worker's answer is of another schema")
        if response.snapshot_id != self._open.snapshot_id:
            raise ProtocolViolated("the worker's answer is of another snapshot")
        if self._ranking_sha256 not in {None, page.ranking_sha256} or page.returned != len(response.candidates):
            raise ProtocolViolated("the worker's answer does not belong to this session's ranking")
        self._ranking_sha256 = page.ranking_sha256
        self._state = _State.READY
        return Page(
            candidates=tuple(response.candidates),
            total=page.total_candidates,
            offset=page.offset,
            next_cursor=page.next_cursor if isinstance(page.next_cursor, str) else None,
            policy=response.policy,
            snapshot_id=response.snapshot_id,
            ranking_sha256=page.ranking_sha256,
        )

    def _expect(self, state: _State) -> None:
        if self._state is not state:
            raise ProtocolViolated(f"the session is {self._state.name.lower()}, not {state.name.lower()}")


def _encode(message: OpenRequest | Request | Continuation) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        raise RequestRejected(
            "rejected", "a text has an unpaired surrogate, which UTF-8 cannot write: replace it before"
        ) from None
