"""The end of what a child process writes to standard error, however much it writes."""

import asyncio
import os
from typing import Final, Self

# The last lines tell why; a worker that floods must not fill the manager.
TAIL_BYTES: Final = 4_096
_READ_BYTES: Final = 64 * 1024


class StderrTail:
    """Drains the read end of a pipe and keeps its last bytes."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._tail = b""
        self._open = True
        loop.add_reader(descriptor, self._read_once)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop) -> tuple[Self, int]:
        """A new pipe: its draining end, and the descriptor for the child, which the caller closes.

        Raises:
            OSError: no descriptor is free.
        """
        ours, childs = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(ours, False)
        return cls(ours, loop), childs

    def text(self) -> str:
        """What is kept so far."""
        return self._tail.decode("utf-8", "replace")

    def drain(self) -> None:
        """Read everything that is in the pipe now."""
        while self._open and self._read_once():
            pass

    def close(self) -> None:
        """Stop reading."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)

    def _read_once(self) -> bool:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self._tail = (self._tail + data)[-TAIL_BYTES:]
        return True
