"""The round's one loop: descriptors that have news, and things to do at a time. Every wait has an end."""

import heapq
import itertools
import selectors
import time
from collections.abc import Callable
from typing import Final

# How often a condition is looked at that no descriptor tells of.
_LOOK_S: Final = 0.01


class Loop:
    """Calls back what is due, whenever somebody waits."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def on_readable(self, descriptor: int, call: Callable[[], None]) -> None:
        """Call when the descriptor has something to read, or its other end is gone."""
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def forget(self, descriptor: int) -> None:
        """Call no more; the descriptor may be closed then."""
        self._selector.unregister(descriptor)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, so much later."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def hurry(self) -> None:
        """Call everything that is waiting for its time, now."""
        due, self._timers = self._timers, []
        for _, _, call in sorted(due):
            call()

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Go on until the condition holds; false if it does not in time."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= until:
                return False
            self._turn(min(until, time.monotonic() + _LOOK_S))
        return True

    def pump(self, seconds: float) -> None:
        """Go on for so long."""
        until = time.monotonic() + seconds
        self._turn(until)
        while time.monotonic() < until:
            self._turn(until)

    def _turn(self, until: float) -> None:
        """Do what is due, then wait for one thing to happen, or until then."""
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        next_timer = self._timers[0][0] if self._timers else until
        for key, _ in self._selector.select(max(0.0, min(until, next_timer) - time.monotonic())):
            if key.fileobj in self._selector.get_map():  # Not forgotten by a call just before.
                key.data()

    def close(self) -> None:
        """Give back the selector."""
        self._selector.close()
