"""The commands by name, and how an error of any of them is told.

Each command is a module of its own, which is loaded when the command is called: `hintcell --help` loads none, and
neither does a typing error. A new command is a module with a `command`, and a line in `_COMMANDS`.
"""

import importlib
from collections.abc import Mapping
from typing import IO, Any, Final, NamedTuple

import click


class _Entry(NamedTuple):
    module: str
    summary: str


_COMMANDS: Final[Mapping[str, _Entry]] = {
    "search": _Entry("hintcell.cli.search", "Rank functions and texts for a query."),
    "mcp": _Entry("hintcell.cli.mcp", "Serve searches to an agent."),
    "serve": _Entry("hintcell.cli.serve", "Run a manager that several clients share."),
    "status": _Entry("hintcell.cli.status", "Show a manager's sessions and their memory."),
    "top": _Entry("hintcell.cli.top", "Watch them live."),
    "events": _Entry("hintcell.cli.events", "Print what a manager does, as it happens."),
    "revoke": _Entry("hintcell.cli.revoke", "End sessions whose permissions changed."),
    "watch": _Entry("hintcell.cli.watch", "End sessions as a policy is edited."),
    "keys": _Entry("hintcell.cli.keys", "Make keys for control from elsewhere."),
}


class FailureError(click.ClickException):
    """The command could not do what was asked; shown as one line on standard error, with exit status 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"hintcell: {' '.join(self.format_message().split())}", file=file, err=file is None)


class _LazyGroup(click.Group):
    """A group whose commands are imported when they are called, and whose errors are told in one place."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - Click's
        entry = _COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = importlib.import_module(entry.module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.command is no Click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click's
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except Exception as error:
            if (message := _told(error)) is None:
                raise
            raise FailureError(message) from error


def _told(error: Exception) -> str | None:
    """The message of an error that is the caller's business; None for a bug of ours."""
    from hintcell.errors import HintcellError, SessionEnded

    if isinstance(error, SessionEnded):
        return f"the session ended: {error}"
    if isinstance(error, HintcellError):
        return str(error)
    return None


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`hintcell COMMAND --help` says more about each.",
)
@click.version_option(package_name="hintcell", message="%(prog)s %(version)s")
def commands() -> None:
    """Ranked search over documents that a user may read, one isolated process per session."""
