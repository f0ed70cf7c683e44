"""`hintcell revoke`: a permission change from the command line."""

from typing import Unpack

import click

from hintcell.cli.figures import counted, duration, shown
from hintcell.cli.managers import Where, connected, manager_options
from hintcell.cli.output import writing
from hintcell_manager.protocol import ChangeReport


@click.command()
@click.option("--principal", metavar="NAME", help="Sessions of this principal.")
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="With at least one of these. May be repeated.")
@click.option("--snapshot", metavar="ID", help="Sessions over this snapshot.")
@click.option("--session", metavar="ID", help="This session.")
@click.option("--everyone", is_flag=True, help="All sessions; excludes the others.")
@manager_options
def command(
    *,
    principal: str | None,
    labels: tuple[str, ...],
    snapshot: str | None,
    session: str | None,
    everyone: bool,
    **where: Unpack[Where],
) -> None:
    """End every session that matches all that is given, and outdate every such grant.

    When it returns, every matching process is dead: its exit was observed.
    """
    somebody = [name for name in (principal, snapshot, session, *labels) if name is not None]
    if everyone and somebody:
        raise click.UsageError("--everyone excludes --principal, --label, --snapshot and --session")
    if not everyone and not somebody:
        raise click.UsageError("name whose sessions: --principal, --label, --snapshot, --session, or --everyone")
    with connected(where) as manager:
        report = manager.permission_changed(
            principal=principal,
            labels=labels or None,
            snapshot_id=snapshot,
            session_id=session,
            everyone=everyone,
        )
    with writing():
        click.echo("\n".join(_lines(report)))


def _lines(report: ChangeReport) -> list[str]:
    lines = [
        f"{shown(ended.session_id)}  "
        + (f"pid {ended.pid}  dead after {duration(ended.died_after_s)}" if ended.pid else "had no process yet")
        for ended in report.ended
    ]
    ended = counted(len(report.ended), "session")
    return [*lines, f"{ended} ended in {duration(report.took_s)}; matching grants from before are refused"]
