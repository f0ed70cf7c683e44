"""A client in a process of its own: does what it is told on standard input, and tells what it saw on standard output.

`python -m tests.faults.storm.agent blocking|asyncio`. Commands overlap: each has a thread or a task. What both
kinds of client share is here; `blocking` and `asyncio_client` drive hintcell.
"""

import asyncio
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

from hintcell import HintcellError, OpenRefused, Page, SessionEnded, Status
from tests.faults.storm.catalogs import is_of
from tests.faults.storm.messages import (
    Change,
    Changed,
    Command,
    Done,
    Ended,
    Failed,
    Foreign,
    Forked,
    Opened,
    Outcome,
    PageSeen,
    Process,
    Refused,
    Result,
    StatusSeen,
    commands,
    encode_line,
)
from tests.faults.storm.processes import is_alive, look

# The number of the outcome that no command has asked for: the agent takes commands.
READY = 0

_ONE_AT_A_TIME = threading.Lock()


def tell(op: int, began: float, result: Result) -> None:
    """Answer a command, now."""
    rest = encode_line(Outcome(op, began, time.monotonic(), result))
    with _ONE_AT_A_TIME:
        while rest:
            rest = rest[os.write(1, rest) :]


def said(lines: Iterable[bytes]) -> Iterator[Command]:
    """The commands in these lines."""
    return (commands.decode(line) for line in lines)


def opened(session_id: str, pid: int) -> Opened:
    """What an open has brought, with a look at the worker while it is young."""
    seen = look(pid)
    return Opened(session_id, pid, seen.process if seen else None, seen.parent if seen else None)


def page_seen(page: Page, key: str) -> PageSeen:
    """What a delivered page was."""
    foreign = sum(not is_of(candidate.candidate_id, key) for candidate in page.candidates)
    return PageSeen(page.offset, len(page.candidates), page.total, foreign)


def status_seen(status: Status) -> StatusSeen:
    """What the manager told of itself."""
    ids = tuple(session.session_id for session in status.sessions)
    return StatusSeen(ids, status.template_pid, status.retired_templates)


def changed(ended: tuple[str, ...], took_s: float, survivors: tuple[Process, ...]) -> Changed:
    """What a change brought."""
    return Changed(ended, took_s, survivors)


def survivors(command: Change) -> tuple[Process, ...]:
    """Which of the processes to watch live now."""
    return tuple(process for process in command.watched if is_alive(process))


def fork() -> Forked:
    """Fork a child that holds what a forked child gets, except for this agent's way to tell."""
    if (pid := os.fork()) != 0:
        return Forked(pid)
    try:
        os.close(0)
        os.close(1)
        while True:
            signal.pause()
    finally:
        os._exit(1)


def failure(error: BaseException) -> Result:
    """What an exception is called in an outcome."""
    if isinstance(error, OpenRefused):
        return Refused(error.reason, str(error))
    if isinstance(error, SessionEnded):
        return Ended(error.reason, error.message)
    if isinstance(error, HintcellError):
        return Failed(type(error).__name__, str(error))
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return Foreign(f"{type(error).__module__}.{type(error).__qualname__}", f"{error} at {where}")


def main() -> None:
    """Say that it is ready, and serve until standard input ends or Leave comes; then exit as any program does."""
    if sys.argv[1] == "blocking":
        from tests.faults.storm.blocking import BlockingAgent

        tell(READY, time.monotonic(), Done())
        BlockingAgent().serve(said(sys.stdin.buffer))
    else:
        from tests.faults.storm.asyncio_client import AsyncioAgent

        asyncio.run(AsyncioAgent().serve())


if __name__ == "__main__":
    main()
