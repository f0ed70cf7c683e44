"""What the manager decided and saw: one log line, one event and one count for each.

A log line never holds a document's text or id, a query, a snapshot's id or a principal; an event names the
principal, because it goes to the same user's sockets alone.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import msgspec

from hintcell_manager.protocol import ManagerEvent
from hintcell_manager.sessions import Session

RECENT_S: Final = 60.0
# Ends remembered for "in the last minute"; a thousand a second are counted too low, and that is all.
_MAX_RECENT: Final = 65_536

log = logging.getLogger("hintcell.manager")


class Journal:
    """Keeps the counts, writes the log, and hands each event to who publishes it."""

    def __init__(self, publish: Callable[[ManagerEvent], None]) -> None:
        self._publish = publish
        self._recent: deque[tuple[float, str]] = deque(maxlen=_MAX_RECENT)
        self.opened = 0
        self.ended: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def session_opened(self, session: Session) -> None:
        """Its worker runs, and the client knows."""
        self.opened += 1
        self._tell(ManagerEvent("opened", time.time(), session.id, session.request.grant.principal, pid=session.pid))

    def session_ended(self, session: Session, lived_s: float) -> None:
        """It is over, for a reason."""
        reason = session.reason or "crashed"
        self.ended[reason] += 1
        self._recent.append((time.monotonic(), reason))
        self._tell(
            ManagerEvent(
                "ended",
                time.time(),
                session.id,
                session.request.grant.principal,
                reason=reason,
                pid=session.pid,
                took_s=lived_s,
                peak_rss_bytes=session.peak_rss_bytes,
            )
        )

    def open_refused(self, reason: str, principal: str) -> None:
        """Somebody knocked in vain."""
        self.refused[reason] += 1
        self._tell(ManagerEvent("refused", time.time(), principal=principal, reason=reason))

    def permission_changed(self, ended: int, took_s: float) -> None:
        """A change was made, and everything that it matched is dead."""
        self._tell(ManagerEvent("permission_changed", time.time(), count=ended, took_s=took_s))

    def template(self, what: str, pid: int | None) -> None:
        """A template is ready, retired, or gone."""
        self._tell(ManagerEvent("template", time.time(), reason=what, pid=pid))

    def recent_ends(self) -> dict[str, int]:
        """How many sessions ended in the last minute, by reason."""
        since = time.monotonic() - RECENT_S
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        return dict(Counter(reason for _, reason in self._recent))

    def _tell(self, event: ManagerEvent) -> None:
        fields = msgspec.structs.asdict(event)
        told = (f"{name}={value}" for name, value in fields.items() if value is not None and name in _LOGGED)
        log.info("%s %s", event.kind, " ".join(told))
        self._publish(event)


_LOGGED: Final = {"session_id", "reason", "pid", "count", "took_s", "peak_rss_bytes"}
