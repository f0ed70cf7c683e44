"""`hintcell watch`: edits of a policy become permission changes of a shared manager, one line for each."""

import contextlib
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import click

from hintcell.cli.figures import counted, duration, json_line, shown
from hintcell.cli.group import FailureError
from hintcell.cli.managers import attached, directory_option
from hintcell.cli.output import until_interrupted, writing
from hintcell.errors import HintcellError, ManagerUnavailable
from hintcell.policy import FilePolicySource, Watched, watch
from hintcell.policy.sources import WATCHING_REST_S
from hintcell_manager.protocol import ManagerEvent


@click.command()
@click.option(
    "--policy",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The policy, as for `hintcell search --policy`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@directory_option
def command(*, policy: Path, as_json: bool, directory: Path | None) -> None:
    """End the sessions of everyone whose rules an edit of the policy changes, in less than a second.

    At its start it ends every session that was opened under a policy, as edits may have been missed before. While
    the file cannot be read, nobody may read anything. Ends with Ctrl-C, or with status 1 when the manager is gone.
    """

    def tell(watched: Watched) -> None:
        line = json_line(watched) if as_json else (watched_line(watched) + "\n").encode(errors="backslashreplace")
        try:
            with writing():
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
        except click.exceptions.Exit:  # Elsewhere that is a reader who has enough; here nobody would watch any more.
            raise FailureError("nobody reads the output any more: the policy is not watched") from None

    stop = threading.Event()
    ends: list[HintcellError] = []
    with until_interrupted(), contextlib.ExitStack() as at_the_end:
        client = at_the_end.enter_context(attached(directory))
        events = client.events()
        waiting = threading.Thread(target=_wait_for_end, args=(events, stop, ends))
        waiting.start()
        at_the_end.callback(waiting.join)
        at_the_end.callback(events.close)
        watch(FilePolicySource(policy, rest_s=WATCHING_REST_S), client, stop, tell=tell)
        raise ends[0]


def _wait_for_end(events: Iterable[ManagerEvent], stop: threading.Event, ends: list[HintcellError]) -> None:
    """Set `stop` when the manager is gone, and say why: another one may serve the directory by the next edit."""
    try:
        for _ in events:
            pass
    except HintcellError as error:
        ends.append(error)
    else:
        ends.append(ManagerUnavailable("the manager has ended, and its sessions with it: watch the next one"))
    finally:
        stop.set()


def watched_line(watched: Watched) -> str:
    """What was done, for people: what happened, whose rules changed, how many sessions that ended, and in what time."""
    match watched.kind:
        case "started":
            what = "watching"
        case "changed":
            what = f"rules changed for {', '.join(map(shown, watched.principals))}"
        case "unreadable":
            what = f"nobody may read anything: {shown(watched.message)}"
        case "readable":
            what = "the policy can be read again"
    return f"{what}; {counted(watched.ended, 'session')} ended in {duration(watched.took_s)}"
