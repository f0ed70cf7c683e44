"""Standard output: what goes wrong when it is written to, and the console for people."""

import contextlib
import os
import sys
from collections.abc import Generator
from typing import Final, NoReturn

import click
from rich.console import Console

from hintcell.cli import EXIT_INTERRUPTED, Interrupted
from hintcell.cli.group import FailureError

# No line is folded that another program reads.
_WIDTH_OF_A_PIPE: Final = 100_000


class _Console(Console):
    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError  # Rich would end the process with status 1.


def console() -> Console:
    """Standard output as people see it: as wide as the terminal; colored unless NO_COLOR is set or it is a pipe."""
    out = _Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not out.is_terminal:
        out.width = _WIDTH_OF_A_PIPE
    return out


@contextlib.contextmanager
def writing() -> Generator[None]:
    """Around everything that writes to standard output.

    Raises:
        Exit: with status 0 when the reader has gone: it has what it wanted.
        FailureError: the output cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        _discard_the_rest()
        raise click.exceptions.Exit(0) from None
    except OSError as error:
        _discard_the_rest()
        raise FailureError(f"cannot write the output: {error.strerror or error}") from error


@contextlib.contextmanager
def until_interrupted() -> Generator[None]:
    """Around a command that is meant to be ended by Ctrl-C, which is then nothing to tell.

    Raises:
        Exit: with the status of an interrupted command.
    """
    try:
        yield
    except (Interrupted, KeyboardInterrupt):
        if os.isatty(2):
            click.echo(err=True)  # The terminal has echoed `^C` in front of the cursor.
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def _discard_the_rest() -> None:
    """Let what is still buffered go nowhere, lest it fail once more when the process ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    finally:
        os.close(null)
