"""How much room the open sessions leave for one more: their number, their principals' and their memory.

Decides from the options and the sessions alone; what happens to a session that finds no room is `sessions`' business.
"""

from collections import Counter
from typing import Final

import msgspec

from hintcell_manager.protocol import ManagerOptions, RefusalReason

# What a session counts for in the memory budget until it is measured: the peak of ranking 2 MiB of text.
RESERVE_BYTES: Final = 32 * 1024 * 1024


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
        self.used_bytes = 0

    def take(self, principal: str, uss_bytes: int | None) -> None:
        """Count a session of this principal; one that was never measured (None) counts with RESERVE_BYTES."""
        self._number += 1
        self._by_principal[principal] += 1
        self.used_bytes += RESERVE_BYTES if uss_bytes is None else uss_bytes

    def obstacle(self, principal: str) -> Obstacle | None:
        """What stands in the way of one more session of this principal."""
        options = self._options
        if options.max_sessions is not None and self._number >= options.max_sessions:
            return Obstacle(
                "too_many_sessions", f"{self._number} sessions are open, of {options.max_sessions}: close one first"
            )
        of_principal = self._by_principal[principal]
        if options.max_sessions_per_principal is not None and of_principal >= options.max_sessions_per_principal:
            return Obstacle(
                "too_many_sessions",
                f"this principal has {of_principal} sessions open, of {options.max_sessions_per_principal}: "
                "close one first",
            )
        budget = options.memory_budget_bytes
        if budget is not None and self.used_bytes + RESERVE_BYTES > budget:
            return Obstacle(
                "memory_budget",
                f"sessions use {self.used_bytes} bytes of the budget of {budget}, "
                f"and a new one needs up to {RESERVE_BYTES}: close some, or raise the budget",
            )
        return None
