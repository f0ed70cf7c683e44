"""Which memory figures to read when, so that hundreds of sessions cost next to nothing.

RSS is one short file and is read every time. PSS and USS make the kernel walk the page tables, so they are read
when RSS has moved, once more at the next look, and otherwise rarely. Decides and remembers; reading is `memory`'s
business.
"""

from collections import deque
from typing import Final

from hintcell_manager.protocol import Sample

# What RSS may move before we look is small beside any sensible limit. A worker that ranks gives shared pages back while
# it takes pages of its own, so RSS can come back to where it was with another USS: hence the second look.
MOVED_BYTES: Final = 512 * 1024
# Pages can also stop being shared while RSS stays, when the template or a neighbour ends.
FULL_INTERVAL_S: Final = 30.0
# Four minutes of seconds; of longer lives, the points are thinned out.
HISTORY_LENGTH: Final = 240


class SessionSampler:
    """What is known of one session's memory."""

    def __init__(self, admitted_at: float) -> None:
        self._admitted_at = admitted_at
        self._full_at = 0.0
        self._rss_at_full = 0
        self._is_settled = False  # Whether RSS had not moved when USS was read.
        self._stride = 1
        self._skipped = 0
        self._unwritten_uss_bytes: int | None = None
        self.history: deque[Sample] = deque()

    def wants_full(self, rss_bytes: int, now: float) -> bool:
        """Whether USS should be read too, given the RSS just read."""
        return not self._is_settled or self._has_moved(rss_bytes) or now - self._full_at >= FULL_INTERVAL_S

    def note(self, rss_bytes: int, uss_bytes: int | None, now: float) -> None:
        """Remember what was read; `uss_bytes` is None where only RSS was."""
        if uss_bytes is not None:
            self._is_settled = not self._has_moved(rss_bytes)
            self._full_at, self._rss_at_full = now, rss_bytes
            self._unwritten_uss_bytes = uss_bytes
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self.history.append(Sample(now - self._admitted_at, rss_bytes, self._unwritten_uss_bytes))
        self._unwritten_uss_bytes = None
        if len(self.history) > HISTORY_LENGTH:
            self.history = deque(list(self.history)[::2])
            self._stride *= 2

    def _has_moved(self, rss_bytes: int) -> bool:
        """Since USS was read."""
        return abs(rss_bytes - self._rss_at_full) >= MOVED_BYTES
