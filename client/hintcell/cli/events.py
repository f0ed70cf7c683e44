"""`hintcell events`: a line for each thing that a manager decides or sees, as it happens."""

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from hintcell.cli.figures import age, counted, duration, json_line, mib, shown
from hintcell.cli.managers import attached, directory_option
from hintcell.cli.output import until_interrupted, writing
from hintcell_manager.protocol import ManagerEvent


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@directory_option
def command(*, as_json: bool, directory: Path | None) -> None:
    """Print what a manager does from now on: sessions opened, ended and refused, permission changes, templates.

    Ends with the manager, or with Ctrl-C.
    """
    with until_interrupted(), attached(directory) as client:
        for event in client.events():
            line = json_line(event) if as_json else (event_line(event) + "\n").encode(errors="backslashreplace")
            with writing():
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
        click.echo("hintcell: the manager has ended", err=True)


def event_line(event: ManagerEvent) -> str:
    """The event for people: local time, what, whose, and the rest in words."""
    at = datetime.datetime.fromtimestamp(event.at, datetime.UTC).astimezone()
    return f"{at:%Y-%m-%d %H:%M:%S}  {event.kind:<18}  {'  '.join(_details(event))}".rstrip()


def _details(event: ManagerEvent) -> Iterator[str]:
    if event.session_id is not None:
        yield shown(event.session_id)
    if event.principal is not None:
        yield shown(event.principal)
    if event.reason is not None:
        yield shown(event.reason)
    if event.count is not None:
        yield f"{counted(event.count, 'session')} ended"
    if event.took_s is not None:
        yield f"after {age(event.took_s)}" if event.kind == "ended" else f"in {duration(event.took_s)}"
    if event.peak_rss_bytes is not None:
        yield f"peak {mib(event.peak_rss_bytes)} MiB"
    if event.pid is not None:
        yield f"pid {event.pid}"
