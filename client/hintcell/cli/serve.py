"""`hintcell serve`: becomes a manager, so that whoever started this process holds the manager itself."""

import os
import sys
from pathlib import Path

import click

from hintcell.cli.group import FailureError
from hintcell_manager.protocol import default_directory


@click.command()
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_directory,
    show_default="below $XDG_RUNTIME_DIR, or else /tmp",
    help="Where its sockets are; made if it does not exist, for you alone.",
)
def command(directory: Path) -> None:
    """Run a manager that several clients share, until Ctrl-C.

    Clients find it by its directory: Client("DIR") in Python, `hintcell search --directory DIR` here.
    """
    if not sys.executable:
        raise FailureError("this Python does not know its own executable: run `python -m hintcell_manager serve`")
    click.echo(f"hintcell: starting a manager in {directory}", err=True)
    arguments = [sys.executable, "-P", "-m", "hintcell_manager", "serve", "--directory", str(directory)]
    try:
        os.execv(sys.executable, arguments)  # noqa: S606 - the arguments are ours, and there is no shell
    except OSError as error:
        raise FailureError(f"cannot start {sys.executable}: {error.strerror}") from error
