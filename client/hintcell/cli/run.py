"""One run of the command inside its process: standard streams in order, every error told in one line."""

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from hintcell.cli.group import commands

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1


def run(arguments: Sequence[str] | None) -> int:
    """Run the command with these arguments (the process's own if None) and return its exit status."""
    _open_closed_streams()
    try:
        status = commands.main(arguments, prog_name="hintcell", standalone_mode=False)
    except click.ClickException as error:
        with contextlib.suppress(OSError):  # Nobody is there to read it.
            error.show()
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the last place where a bug can still be told in one line
        print(f"hintcell: internal error, please report it: {_in_one_line(error)}", file=sys.stderr)
        return EXIT_FAILED
    return status if isinstance(status, int) else EXIT_OK


def _open_closed_streams() -> None:
    """Put the null device in the place of closed standard streams, before a socket gets their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number: this one.
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, if it was closed at the start
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process ends
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    # A name that the terminal cannot show is escaped; it must not end the command.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _in_one_line(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "an unknown place"
    return f"{type(error).__name__} at {where}: {' '.join(str(error).split())}"
