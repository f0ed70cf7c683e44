"""The asyncio client with the blocking one's names, so that one suite runs over both.

Each call runs on one event loop in a thread of its own and is waited for, within a bound. Nothing of hintcell is
decided here: what a test sees is what `AsyncClient` and `AsyncSession` did.
"""

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from hintcell import AsyncClient, AsyncSession, ChangeReport, End, Grant, ManagerEvent, Page, Status

# Above every deadline of the client's own: a call that takes so long hangs.
HANGS_AFTER_S: Final = 60.0

_Result = TypeVar("_Result")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """The loop that all clients of a test run share; its thread ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="asyncio clients", daemon=True).start()
    return loop


def run(call: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of a coroutine, for a thread that has no event loop."""
    return asyncio.run_coroutine_threadsafe(call, _loop()).result(HANGS_AFTER_S)


def _iterate(pages_or_events: AsyncIterator[_Result]) -> Iterator[_Result]:
    async def following() -> _Result | None:
        return await anext(pages_or_events, None)

    while (item := run(following())) is not None:
        yield item


class BlockingAsyncClient:
    """`AsyncClient`, called as `Client` is."""

    def __init__(self, directory: str | os.PathLike[str] | None = None, **settings: Any) -> None:
        async def made() -> AsyncClient:
            client = AsyncClient(directory, **settings)
            await client.start()
            return client

        self.wrapped: Final = run(made())

    @property
    def directory(self) -> Path:
        return self.wrapped.directory

    @property
    def manager_pid(self) -> int:
        return self.wrapped.manager_pid

    def grant(self, principal: str, labels: Sequence[str] = ()) -> Grant:
        return run(self.wrapped.grant(principal, labels))

    def open(self, grant: Grant, **request: Any) -> "BlockingAsyncSession":
        return BlockingAsyncSession(run(self.wrapped.open(grant, **request)))

    def permission_changed(self, **selector: Any) -> ChangeReport:
        return run(self.wrapped.permission_changed(**selector))

    def status(self, *, full_memory: bool = False, history: bool = False) -> Status:
        return run(self.wrapped.status(full_memory=full_memory, history=history))

    def events(self) -> Iterator[ManagerEvent]:
        return _iterate(run(self.wrapped.events()))

    def end_of(self, session_id: str) -> End:
        return run(self.wrapped.end_of(session_id))

    def close(self) -> None:
        run(self.wrapped.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingAsyncSession:
    """`AsyncSession`, called as `Session` is."""

    def __init__(self, session: AsyncSession) -> None:
        self.wrapped: Final = session
        self.id: Final = session.id
        self.pid: Final = session.pid

    def __iter__(self) -> Iterator[Page]:
        return _iterate(aiter(self.wrapped))

    def page(self, cursor: str | None = None, limit: int | None = None) -> Page:
        return run(self.wrapped.page(cursor, limit))

    def close(self) -> None:
        run(self.wrapped.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
