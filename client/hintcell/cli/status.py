"""`hintcell status`: what a manager holds now, once."""

import sys
from typing import Unpack

import click
from rich.text import Text

from hintcell.cli.figures import NOTHING, json_line, mib
from hintcell.cli.managers import Where, connected, manager_options
from hintcell.cli.output import console, writing
from hintcell.cli.overview import IDENTITY, LEGEND, PEAK, RSS, USS, Column, grid, manager_lines
from hintcell_manager.protocol import SessionStatus, Status


def _pss_bytes(session: SessionStatus) -> int | None:
    return session.memory.pss_bytes


def _cpu_s(session: SessionStatus) -> str:
    return NOTHING if session.cpu_s is None else f"{session.cpu_s:,.2f}"


_PSS = Column("PSS", lambda session: mib(_pss_bytes(session)), _pss_bytes)
_CPU = Column("CPU s", _cpu_s)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--full", is_flag=True, help="Read PSS and USS now, and with --json tell each session's history.")
@manager_options
def command(*, as_json: bool, full: bool, **where: Unpack[Where]) -> None:
    """Show a manager's sessions, their memory, and what has happened since its start."""
    with connected(where) as manager:
        status = manager.status(full_memory=full, history=full and as_json)
    if as_json:
        with writing():
            sys.stdout.buffer.write(json_line(status))
            sys.stdout.buffer.flush()
        return
    out = console()
    with writing():
        for line in _lines(status, out.width, full=full):
            out.print(line, soft_wrap=True)
        out.file.flush()


def _lines(status: Status, width: int, *, full: bool) -> list[Text]:
    if not status.sessions:
        return [Text("No session is open."), Text(), *manager_lines(status)]
    columns = [*IDENTITY, RSS, *([_PSS] if full else []), USS, PEAK, _CPU]
    heading, rows, total = grid(status.sessions, columns, width, shown_only=None)
    sessions = [line for row in rows for line in row]
    return [heading, *sessions, total, Text(LEGEND, style="dim"), Text(), *manager_lines(status)]
