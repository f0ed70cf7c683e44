"""`hintcell serve`: becomes a manager, so that whoever started this process holds the manager itself.

The options are those of `ManagerOptions`, which has the defaults; what they do is the manager's business.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click
import msgspec

from hintcell.cli.parameters import COUNT, SECONDS, SIZE, Kind, above_zero
from hintcell.cli.process import become_manager
from hintcell_manager.protocol import ManagerOptions, default_directory

_DEFAULTS: Final = ManagerOptions()
# For these, no limit has no meaning.
_NEVER_NONE: Final = {"open_wait_s", "sample_interval_s"}


def _option(name: str, field: str, kind: Kind, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    default: float | None = getattr(_DEFAULTS, field)
    may_be_none = field not in _NEVER_NONE
    return click.option(
        name,
        field,
        type=str,
        metavar=kind.metavar,
        default=None if default is None else f"{default:g}",
        show_default="no limit" if default is None else True,
        callback=above_zero(kind, none=may_be_none),
        help=text,
    )


@click.command()
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_directory,
    show_default="below $XDG_RUNTIME_DIR, or else /tmp",
    help="Where its sockets are; made if it does not exist, for you alone.",
)
@_option("--idle-timeout", "idle_timeout_s", SECONDS, "End a session that had nothing to do for so long.")
@_option("--lifetime", "lifetime_s", SECONDS, "End a session so long after its worker started.")
@_option("--ranking-deadline", "ranking_deadline_s", SECONDS, "End a session that takes longer to rank.")
@_option("--max-sessions", "max_sessions", COUNT, "While so many are open, an open waits (--open-wait).")
@_option(
    "--max-sessions-per-principal",
    "max_sessions_per_principal",
    COUNT,
    "While one principal has so many open, its opens wait.",
)
@_option("--memory-limit", "memory_limit_bytes", SIZE, "End a session whose USS exceeds it.")
@_option(
    "--memory-budget",
    "memory_budget_bytes",
    SIZE,
    "What all sessions' USS may add up to: an open that has no room, 32 MiB, waits.",
)
@_option("--open-wait", "open_wait_s", SECONDS, "How long an open waits for room before it is refused.")
@_option("--sample-interval", "sample_interval_s", SECONDS, "How often each session's memory is looked at.")
@_option("--template-max-forks", "template_max_forks", COUNT, "Replace the template after so many workers.")
@_option("--template-max-age", "template_max_age_s", SECONDS, "Replace the template at this age.")
@click.option(
    "--launcher",
    type=click.Choice(["template", "exec"]),
    default=_DEFAULTS.launcher,
    show_default=True,
    help="Fork workers from a warm template, or start each as a fresh interpreter.",
)
@click.option("--control", metavar="tcp://HOST:PORT", help="Also serve control requests there; needs --keys.")
@click.option(
    "--keys",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The keys of this manager and of who may connect (`hintcell keys`).",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve Prometheus metrics there.")
def command(*, directory: Path, control: str | None, keys: Path | None, metrics: str | None, **options: object) -> None:
    """Run a manager that several clients share, until Ctrl-C.

    Clients find it by its directory: Client("DIR") in Python, `hintcell search --directory DIR` here. Times are in
    seconds, sizes like 64MiB; `none` is no limit.
    """
    if (control is None) != (keys is None):
        raise click.UsageError("--control and --keys go together: without keys, nothing listens on TCP")
    arguments = [f"--directory={os.fspath(directory)}"]
    given = msgspec.json.encode(msgspec.convert(options, ManagerOptions)).decode()
    arguments.append(f"--options={given}")
    for name, value in (("control", control), ("keys", keys), ("metrics", metrics)):
        if value is not None:
            arguments.append(f"--{name}={os.fspath(value)}")
    click.echo(f"hintcell: starting a manager in {directory}", err=True)
    become_manager(["serve", *arguments])
