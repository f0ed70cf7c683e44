"""Which searches are open, whose they are, how many there may be, and how earlier ones ended.

A search in use, by a call or for as long as somebody holds it, never makes room for another one: whoever wants one more
waits. Everything may be called from any thread. Does not cover what a search is, nor closing it: what has to be closed
is returned.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

# Ends of searches that are still told to whoever comes back.
_ENDS_KEPT: Final = 1_024


class Owned(Protocol):
    """What the table asks of a search."""

    @property
    def principal(self) -> str:
        """Whose it is."""
        ...

    @property
    def handle(self) -> str:
        """Names it, and no other one of anybody."""
        ...


SearchT = TypeVar("SearchT", bound=Owned)


class End(NamedTuple):
    """Why a search is over, and what to say to whoever comes back. Not an error, which keeps what it passed through."""

    reason: str
    message: str


class ClosedTableError(Exception):
    """Nothing is searched any more."""


class NoPlaceError(Exception):
    """As many searches as there may be have been in use for too long."""


class SearchTable(Generic[SearchT]):
    """Open searches by handle.

    Args:
        most: searches that one principal may have.
        evicted: the end of those that made room.
    """

    def __init__(self, most: int, evicted: End) -> None:
        self._most = most
        self._evicted = evicted
        self._changed = threading.Condition()
        # The longest unused first.
        self._searches: OrderedDict[str, SearchT] = OrderedDict()
        self._users: Counter[str] = Counter()  # of a search, by handle
        self._coming: Counter[str] = Counter()  # searches that are being opened, by principal
        self._ends: OrderedDict[str, tuple[str, End]] = OrderedDict()
        self._is_closed = False

    @contextmanager
    def place(self, principal: str, wait_s: float) -> Generator[None]:
        """A place for one more search of a principal, to be opened and added within.

        Raises:
            ClosedTableError: the table is closed.
            NoPlaceError: after `wait_s` seconds all places are still in use.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_closed or self._in_use(principal) < self._most, wait_s):
                raise NoPlaceError
            self._check_open()
            self._coming[principal] += 1
        try:
            yield
        finally:
            with self._changed:
                self._count_down(self._coming, principal)

    def add(self, search: SearchT) -> list[SearchT]:
        """Take in a search, in use; returns those that made room for it.

        Raises:
            ClosedTableError: the table is closed.
        """
        with self._changed:
            self._check_open()
            self._searches[search.handle] = search
            self._users[search.handle] += 1
            return self._make_room(search.principal)

    def take(self, principal: str, handle: str) -> SearchT | End | None:
        """A search of the principal, in use until it is given back; or how it ended; None if there is no such one."""
        with self._changed:
            search = self._searches.get(handle)
            if search is not None and search.principal == principal:
                self._searches.move_to_end(handle)
                self._users[handle] += 1
                return search
            owner, end = self._ends.get(handle, ("", None))
            return end if owner == principal else None

    def give_back(self, search: SearchT) -> list[SearchT]:
        """Say that a use is over; returns those that make room now."""
        with self._changed:
            self._count_down(self._users, search.handle)
            return self._make_room(search.principal)

    def end(self, principal: str, handle: str, end: End) -> SearchT | None:
        """Take a search of the principal out, in use or not, and remember why; None if it is out already."""
        with self._changed:
            search = self._searches.get(handle)
            if search is None or search.principal != principal:
                return None
            return self._take_out(handle, end)

    def close(self) -> list[SearchT]:
        """Take all out, and no other one in."""
        with self._changed:
            self._is_closed = True
            searches = list(self._searches.values())
            self._searches.clear()
            self._changed.notify_all()
            return searches

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedTableError

    def _in_use(self, principal: str) -> int:
        return self._coming[principal] + sum(self._users[each] > 0 for each in self._own(principal))

    def _own(self, principal: str) -> list[str]:
        return [handle for handle, search in self._searches.items() if search.principal == principal]

    def _make_room(self, principal: str) -> list[SearchT]:
        """Take out unused searches of a principal that has too many, the longest unused first."""
        own = self._own(principal)
        unused = [handle for handle in own if not self._users[handle]]
        return [self._take_out(handle, self._evicted) for handle in unused[: max(0, len(own) - self._most)]]

    def _take_out(self, handle: str, end: End) -> SearchT:
        search = self._searches.pop(handle)
        self._ends[handle] = (search.principal, end)
        while len(self._ends) > _ENDS_KEPT:
            self._ends.popitem(last=False)
        self._changed.notify_all()
        return search

    def _count_down(self, counts: Counter[str], key: str) -> None:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
        self._changed.notify_all()
