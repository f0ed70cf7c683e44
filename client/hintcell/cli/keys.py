"""`hintcell keys`: becomes the manager's command that makes keys for its control over TCP."""

import os
from pathlib import Path

import click
from click.core import ParameterSource

from hintcell.cli.process import become_manager


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.option("--client", metavar="NAME", help="Make a key for this client, instead of the manager's own.")
@click.option(
    "--role",
    type=click.Choice(["observe", "revoke"]),
    default="observe",
    show_default=True,
    help="What the client may do: look, or announce permission changes.",
)
@click.pass_context
def command(context: click.Context, /, directory: Path, *, client: str | None, role: str) -> None:
    """Make the manager's keys in DIR, or with --client those of somebody who may control it from elsewhere.

    Prints the files it wrote. A client's key counts as long as its public half is in DIR.
    """
    if client is None and context.get_parameter_source("role") is not ParameterSource.DEFAULT:
        raise click.UsageError("--role goes with --client NAME")
    of_client = [] if client is None else [f"--client={client}", f"--role={role}"]
    become_manager(["keys", *of_client, "--", os.fspath(directory)])
