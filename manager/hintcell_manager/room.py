"""How much room the open sessions leave for one more: their number, their principals' and their memory.

Decides from the options and the sessions alone; what happens to a session that finds no room is `sessions`' business.
"""

from collections import Counter
from typing import Final

import msgspec

from hintcell_manager.protocol import ManagerOptions, OpenRequest, RefusalReason
from hintcell_worker.protocol import Limits

# What a session with the usual limits counts for in the memory budget until it is measured: the peak of ranking code
# or prose, three times over.
RESERVE_BYTES: Final = 32 * 1024 * 1024
_USUAL: Final = Limits()


def reserve_bytes(limits: Limits) -> int:
    """What a session counts for until it is measured; ranking takes memory in proportion to what a request may hold."""
    times = max(
        1,
        limits.max_documents / _USUAL.max_documents,
        limits.max_text_bytes / _USUAL.max_text_bytes,
        limits.max_request_bytes / _USUAL.max_request_bytes,
    )
    return int(RESERVE_BYTES * times)


class Obstacle(msgspec.Struct, frozen=True):
    """Why there is no room, with the numbers."""

    reason: RefusalReason
    message: str


class Room:
    """What is taken now. Made for one look and thrown away."""

    def __init__(self, options: ManagerOptions) -> None:
        self._options = options
        self._number = 0
        self._by_principal: Counter[str] = Counter()
        self._used_bytes = 0

    def take(self, request: OpenRequest, uss_bytes: int | None) -> None:
        """Count the session of this request; one that was never measured (None) counts with its reserve."""
        self._number += 1
        self._by_principal[request.grant.principal] += 1
        self._used_bytes += reserve_bytes(request.limits) if uss_bytes is None else uss_bytes

    def obstacle(self, request: OpenRequest) -> Obstacle | None:
        """What stands in the way of one more session, for this request."""
        options = self._options
        if options.max_sessions is not None and self._number >= options.max_sessions:
            return Obstacle(
                "too_many_sessions", f"{self._number} sessions are open, of {options.max_sessions}: close one first"
            )
        of_principal = self._by_principal[request.grant.principal]
        if options.max_sessions_per_principal is not None and of_principal >= options.max_sessions_per_principal:
            return Obstacle(
                "too_many_sessions",
                f"this principal has {of_principal} sessions open, of {options.max_sessions_per_principal}: "
                "close one first",
            )
        budget, reserve = options.memory_budget_bytes, reserve_bytes(request.limits)
        if budget is not None and self._used_bytes + reserve > budget:
            return Obstacle(
                "memory_budget",
                f"sessions use {self._used_bytes} bytes of the budget of {budget}, "
                f"and a new one needs up to {reserve}: close some, or raise the budget",
            )
        return None
