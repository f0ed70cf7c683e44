"""A policy that is watched here and read here: a search waits until the watch has done what follows from its text.

Else a search that reads an edit before the watch does would succeed, only to be ended by the watch a moment later.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Final

from hintcell.integrations.mcp.backend import Revoking
from hintcell.policy import Policy, PolicyError, PolicySource, Watched, watch

# The watch sees an edit in less than half a second. Whoever waited longer goes on, and may be ended later.
FOLLOW_DEADLINE_S: Final = 3.0


class FollowedPolicy:
    """A `PolicySource` for searches, and the `Watcher` of the same policy."""

    def __init__(self, source: PolicySource) -> None:
        """Follow a policy, as soon as `watch` is called."""
        self._source = source
        self._told = threading.Condition()
        self._done: Policy | None = None

    def read(self) -> Policy:
        """The policy as it is now, when the watch has ended what it ends.

        Raises:
            PolicyError: there is none, or it has no meaning.
        """
        policy = self._source.read()
        with self._told:
            self._told.wait_for(
                lambda: self._done is not None and not self._done.changed(policy), timeout=FOLLOW_DEADLINE_S
            )
        return policy

    def changes(self, stop: threading.Event) -> Iterator[None]:
        """See `PolicySource`."""
        return self._source.changes(stop)

    def watch(self, revoking: Revoking, stop: threading.Event, watched: Callable[[], None]) -> None:
        """See `Watcher`."""
        seen = _Seen(self._source)

        def tell(_: Watched) -> None:
            with self._told:
                self._done = seen.policy
                self._told.notify_all()
            watched()

        watch(seen, revoking, stop, tell=tell)


class _Seen:
    """A `PolicySource` that remembers what was read from it last, by the one thread that reads."""

    def __init__(self, source: PolicySource) -> None:
        self._source = source
        self.policy: Policy | None = None

    def read(self) -> Policy:
        try:
            self.policy = self._source.read()
        except PolicyError:
            self.policy = None
            raise
        return self.policy

    def changes(self, stop: threading.Event) -> Iterator[None]:
        return self._source.changes(stop)
