"""What a person sees while waiting: a progress bar on standard error, if that is a terminal and it takes a while."""

import sys
import threading
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from hintcell.cli.figures import counted

# Nobody wonders about a shorter wait, and a bar that flickers by disturbs.
PATIENCE_S: Final = 0.5


class Activity:
    """A progress bar that comes after `patience_s` and leaves nothing on the screen; nothing at all off a terminal."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            console=Console(stderr=True, markup=False, highlight=False),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._progress.add_task("", total=None, count="")
        self._timer = threading.Timer(patience_s, self._progress.start)
        self._timer.daemon = True

    def says(self, description: str) -> None:
        """What is being done now, for as long as it takes."""
        self._progress.remove_task(self._task)  # A task cannot go back to having no total.
        self._task = self._progress.add_task(description, total=None, count="")

    def files_done(self, done: int, total: int) -> None:
        """So many of so many files have been read (a catalog's progress)."""
        self._progress.update(self._task, completed=done, total=total, count=f"{done:,}/{counted(total, 'file')}")

    def __enter__(self) -> Self:
        if not self._progress.disable:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar off the screen; it does not come back."""
        self._timer.cancel()
        if self._timer.is_alive():
            self._timer.join()  # It may be showing the bar just now.
        self._progress.stop()
