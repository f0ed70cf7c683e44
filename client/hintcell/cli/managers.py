"""Which manager a command speaks to: the one that serves a directory, or one elsewhere over TCP with keys."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypedDict, TypeVar

import click

from hintcell.client import Client
from hintcell.remote import RemoteManager
from hintcell_manager.protocol import default_directory

Command = TypeVar("Command", bound=Callable[..., None])


class Where(TypedDict):
    """The values of `manager_options`."""

    directory: Path | None
    manager: str | None
    key: Path | None
    manager_key: Path | None


directory_option: Final = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    show_default="below $XDG_RUNTIME_DIR, or else /tmp",
    help="Where the manager's sockets are.",
)
_REMOTE: Final = (
    click.option("--manager", metavar="tcp://HOST:PORT", help="Ask a manager elsewhere; needs both keys."),
    click.option(
        "--key",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With --manager: your key, a file that ends in .key_secret.",
    ),
    click.option(
        "--manager-key",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With --manager: its public key, manager.key.",
    ),
)


def manager_options(command: Command) -> Command:
    """Give a command the options that say which manager; `connected` takes their values."""
    for option in reversed((directory_option, *_REMOTE)):
        command = option(command)
    return command


def connected(where: Where) -> Client | RemoteManager:
    """The manager that the options name.

    Raises:
        UsageError: they do not go together.
        HintcellError: there is no such manager, or a key is none.
    """
    manager, key, manager_key = where["manager"], where["key"], where["manager_key"]
    if manager is None:
        if key is not None or manager_key is not None:
            raise click.UsageError("--key and --manager-key go with --manager tcp://HOST:PORT")
        return attached(where["directory"])
    if where["directory"] is not None:
        raise click.UsageError("--directory and --manager exclude each other")
    if not manager.startswith("tcp://"):
        raise click.UsageError("--manager takes the form tcp://HOST:PORT")
    if key is None or manager_key is None:
        raise click.UsageError("--manager needs --key and --manager-key (`hintcell keys --help`)")
    return RemoteManager(manager, key_file=key, manager_key_file=manager_key)


def attached(directory: Path | None) -> Client:
    """The manager that serves this directory, by default the user's own."""
    return Client(directory or default_directory())
