"""What is searched, what a scripted model takes from a tool's lines, and what tests ask of the manager."""

import asyncio
import re
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hintcell import Client
from hintcell.searches import Documents, Results, Searches, Snapshot
from tests.client.searches import SOON_S, catalog

# As many as need three pages of a retriever.
DOCUMENTS = catalog(250)

_SESSION = re.compile(r"^Session (\S+), hits", re.MULTILINE)
_CURSOR = re.compile(r"^Next cursor: (\S+)$", re.MULTILINE)
_RANK = re.compile(r"^(\d+)\. \S.* \(score \d+\.\d\d\)$", re.MULTILINE)


def everything(_principal: str, _globs: Sequence[str]) -> Snapshot:
    return Documents("snapshot", DOCUMENTS)


def session_in(lines: str) -> str:
    (session,) = _SESSION.findall(lines)
    return str(session)


def cursor_in(lines: str) -> str:
    (cursor,) = _CURSOR.findall(lines)
    return str(cursor)


def ranks_in(lines: str) -> list[int]:
    return [int(rank) for rank in _RANK.findall(lines)]


def open_sessions(client: Client, principal: str) -> int:
    return sum(session.principal == principal for session in client.status().sessions)


def sessions_become(client: Client, principal: str, number: int) -> bool:
    """Whether the principal has that many sessions, at the latest soon."""
    return happens(lambda: open_sessions(client, principal) == number)


def happens(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + SOON_S
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


class Revoked(Searches):
    """Searches whose permissions change between the first page and the second."""

    def __init__(self, client: Client, *arguments: Any) -> None:
        super().__init__(client, *arguments)
        self._revoking = client

    def read(self, principal: str, session: str, cursor: str, *, limit: int = 20) -> Results:
        self._revoking.permission_changed(principal=principal)
        return super().read(principal, session, cursor, limit=limit)


class Waiting(Searches):
    """Searches that wait, before they open anything, for the test to let them go on."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, self._wait)
        self._asked = threading.Event()
        self._may_go_on = threading.Event()
        self._is_opened = threading.Event()
        self.number_opened = 0

    def wait_until_asked(self) -> None:
        assert self._asked.wait(SOON_S)

    def go_on(self) -> None:
        """Returns when a session was opened."""
        self._may_go_on.set()
        assert self._is_opened.wait(SOON_S)

    def search(self, principal: str, query: str, *, globs: Sequence[str] = (), limit: int = 20) -> Results:
        results = super().search(principal, query, globs=globs, limit=limit)
        self._count()
        return results

    @contextmanager
    def searching(
        self, principal: str, query: str, *, globs: Sequence[str] = (), limit: int = 20
    ) -> Generator[Results]:
        with super().searching(principal, query, globs=globs, limit=limit) as results:
            self._count()
            yield results

    def _count(self) -> None:
        self.number_opened += 1
        self._is_opened.set()

    def cancel_when_asked(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Begin the work in a loop, cancel it once it waits for a session, and let that be opened nevertheless."""

        async def cancel() -> None:
            working = asyncio.ensure_future(work())
            await asyncio.to_thread(self.wait_until_asked)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            self.go_on()

        asyncio.run(cancel())
        assert self.number_opened == 1

    def _wait(self, principal: str, globs: Sequence[str]) -> Snapshot:
        self._asked.set()
        assert self._may_go_on.wait(SOON_S)
        return everything(principal, globs)
