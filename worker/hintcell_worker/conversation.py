"""The worker's side of the line protocol, without I/O: bytes in, answers out.

Covers both modes, bounded reading, and the order of requests. Does not cover streams, exit statuses or the
ranking itself, which is loaded when a request has been accepted and not before.

    single request    everything up to the end of input is one request; one indented response answers it
    session           the first line is the request, every later line a continuation; one compact line answers each

    state       a line arrives                      the input ends
    ---------   ---------------------------------   ------------------------------
    REQUEST     decode, rank, answer -> PAGES       nothing came: error; else as a line
    PAGES       decode, answer       -> PAGES       done; a line left over is answered first
    any         a rule is broken: RequestError, and the conversation is over
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import msgspec

from hintcell_worker.protocol import (
    MAX_CONTINUATION_BYTES,
    MAX_PAGE_LIMIT,
    NOTHING_ASKED,
    Limits,
    Request,
    RequestError,
    decode_continuation,
    decode_request,
)

if TYPE_CHECKING:
    from hintcell_worker.ranking import Ranking


class Options(msgspec.Struct, frozen=True):
    """How a worker was asked to run; the fields are the command's flags.

    Attributes:
        session: whether to stay open for continuations.
        limit: candidates in a page, 1..4096; 0 asks for all of them at once, without a page.
        identifier_hints: whether to interleave the ranking of split identifiers.
        cursor: where a single request's page starts; empty for the first page.
        limits: what the request may hold.
    """

    session: bool = False
    limit: int = 0
    identifier_hints: bool = False
    cursor: str = ""
    limits: Limits = Limits()

    def check(self) -> None:
        """Raise RequestError if the flags contradict each other or leave their range."""
        self.limits.check()
        if not 0 <= self.limit <= MAX_PAGE_LIMIT:
            raise RequestError(f"--limit is {self.limit}: use 1 to {MAX_PAGE_LIMIT}, or 0 for all candidates")
        if self.session and self.limit == 0:
            raise RequestError(f"--session needs --limit: use 1 to {MAX_PAGE_LIMIT}")
        if self.session and self.cursor:
            raise RequestError("--session does not take --cursor: send the cursor in a continuation line")
        if self.cursor and self.limit == 0:
            raise RequestError(f"--cursor needs --limit: use 1 to {MAX_PAGE_LIMIT}")


class Conversation:
    """One run of the protocol: feed it input, write what it returns.

    `receive` and `end_of_input` yield each answer as soon as it exists, with its line end, so that an error in
    a later line loses no earlier answer.
    """

    def __init__(
        self, options: Options, *, while_ranking: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    ) -> None:
        """Begin.

        Args:
            options: how it shall run.
            while_ranking: entered from a whole request to its whole answer, but not while either is on its way.

        Raises:
            RequestError: the options contradict each other.
        """
        options.check()
        self._options = options
        self._while_ranking = while_ranking
        self._input = bytearray()
        self._scanned = 0
        self._ranking: Ranking | None = None

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes of input and yield the answers that they complete.

        Raises:
            RequestError: a rule is broken. Nothing may be fed after that.
        """
        self._input += data
        while self._options.session and (end := self._input.find(b"\n", self._scanned)) >= 0:
            self._refuse_over_limit(end + 1)
            yield self._answer(self._take(end + 1))
        self._scanned = len(self._input)
        self._refuse_over_limit(self._scanned)

    def end_of_input(self) -> Iterator[bytes]:
        """Yield the answer to what is left, if that is not nothing.

        Raises:
            RequestError: a rule is broken, or no request came at all.
        """
        if self._ranking is None and not self._input:
            raise RequestError(NOTHING_ASKED)
        if self._input:
            yield self._answer(self._take(len(self._input)))

    def _refuse_over_limit(self, size: int) -> None:
        if self._ranking is not None:
            what, limit = "the continuation line", MAX_CONTINUATION_BYTES
        else:
            what, limit = "the request", self._options.limits.max_request_bytes
        if size > limit:
            raise RequestError(f"{what} has over {limit} bytes, line end included: make it shorter")

    def _take(self, size: int) -> bytearray:
        """Cut the first `size` bytes off the input, without a copy when that is all there is."""
        self._scanned = 0
        if size == len(self._input):
            line, self._input = self._input, bytearray()
        else:
            line = self._input[:size]
            del self._input[:size]
        return line

    def _answer(self, line: bytearray) -> bytes:
        if self._ranking is None:
            with self._while_ranking():
                return self._first_answer(line)
        from hintcell_worker import cursor, pages

        continuation = decode_continuation(line)
        ranking = self._ranking
        offset = cursor.decode_cursor(continuation.cursor, ranking.sha256, len(ranking.ids))
        return pages.page(ranking, offset, continuation.limit) + b"\n"

    def _first_answer(self, line: bytearray) -> bytes:
        options = self._options
        request = decode_request(line, options.limits, identifier_hints=options.identifier_hints)
        line.clear()  # The caller still refers to it; its megabytes are not needed while ranking.
        self._ranking = ranking = self._rank(request)
        from hintcell_worker import canonical, cursor, pages

        if options.limit == 0:
            answer = pages.whole_ranking(ranking)
        else:
            total = len(ranking.ids)
            offset = cursor.decode_cursor(options.cursor, ranking.sha256, total) if options.cursor else 0
            answer = pages.page(ranking, offset, options.limit)
        return (answer if options.session else canonical.indent(answer)) + b"\n"

    def _rank(self, request: Request) -> "Ranking":
        # scikit-learn takes most of a second to load: a request that is refused must not wait for it.
        from hintcell_worker import ranking

        return ranking.rank(request, self._options.limits, identifier_hints=self._options.identifier_hints)
