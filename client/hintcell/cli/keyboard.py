"""Single keys from the terminal, and the terminal put back as it was."""

import os
import select
import sys
import termios
import time
import tty
from typing import Any, Self


class Keyboard:
    """Reads keys as they are pressed, without showing them; where standard input is no terminal, there are none."""

    def __enter__(self) -> Self:
        self._descriptor: int | None = None
        self._before: list[Any] = []
        try:
            descriptor = sys.stdin.fileno()
            if os.isatty(descriptor):
                self._before = termios.tcgetattr(descriptor)
                tty.setcbreak(descriptor)
                self._descriptor = descriptor
        except (OSError, ValueError, termios.error):  # Closed, or replaced by something that is no file.
            pass
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def is_pressed(self, key: str, within_s: float) -> bool:
        """Wait for this key; whether it came in time."""
        until = time.monotonic() + within_s
        while (left_s := until - time.monotonic()) > 0:
            if self._descriptor is None:
                time.sleep(left_s)
            elif select.select([self._descriptor], [], [], left_s)[0]:
                pressed = os.read(self._descriptor, 1024).decode("utf-8", "replace")
                if not pressed:  # The terminal is gone.
                    self._descriptor = None
                if key in pressed:
                    return True
        return False
