"""`hintcell mcp`: a server of the Model Context Protocol for one principal, until its input ends.

Covers the command line and the end of the process. Does not cover what an agent sees (`hintcell.integrations.mcp`).
"""

import contextlib
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click
from click.core import ParameterSource

from hintcell.catalog import CatalogError
from hintcell.catalog.walk import globs_of
from hintcell.cli import EXIT_INTERRUPTED, Interrupted
from hintcell.cli.figures import shown
from hintcell.cli.group import FailureError
from hintcell.cli.options import check_principal, chosen_limits, limit_options, login_name
from hintcell.cli.parameters import COUNT, SECONDS, above_zero
from hintcell.errors import HintcellError
from hintcell.folders import folder_catalog
from hintcell.policy import LABEL, FilePolicySource
from hintcell.searches import MAX_SESSIONS
from hintcell.sidecar import STOP_DEADLINE_S
from hintcell_manager.protocol import ManagerOptions

if TYPE_CHECKING:
    from hintcell.integrations.mcp import Backend, SearchServer

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_TERMINATED: Final = 128 + signal.SIGTERM

# Where the SDK checks the Host header as well, so that no web page reaches it through a name of its own.
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
# An agent that has not come back by then has forgotten.
_IDLE_TIMEOUT_S: Final = 900
# A private manager that does not end is killed, and that is waited for.
_CLOSE_DEADLINE_S: Final = STOP_DEADLINE_S + 5


class _TerminatedError(BaseException):
    """SIGTERM."""


def _check_globs(_context: click.Context, _parameter: click.Parameter, globs: tuple[str, ...]) -> tuple[str, ...]:
    try:
        globs_of(globs)
    except CatalogError as error:
        raise click.BadParameter(str(error)) from error
    return globs


@click.command()
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    show_default="the current directory",
    help="Search the files below this folder.",
)
@click.option(
    "--principal",
    default=login_name,
    show_default="your login name",
    callback=check_principal,
    help="Who reads, all the time.",
)
@click.option(
    "--glob",
    "globs",
    multiple=True,
    metavar="PATTERN",
    callback=_check_globs,
    help="Search only files that match it, such as src/**/*.py; with ! in front, not those. May be repeated.",
)
@click.option(
    "--policy",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Search only what this policy lets the principal read, and end searches as it is edited.",
)
@click.option("--identifier-hints", is_flag=True, help="Also rank by parts of names such as readConfig.")
@click.option("--token-budget", metavar="COUNT", callback=above_zero(COUNT, none=False), help="Tokens in an answer.")
@click.option(
    "--max-sessions",
    metavar="COUNT",
    default=str(MAX_SESSIONS),
    show_default=True,
    callback=above_zero(COUNT, none=False),
    help="Searches that stay open; another one closes the longest unused.",
)
@click.option(
    "--idle-timeout",
    metavar="SECONDS",
    default=f"{_IDLE_TIMEOUT_S}",
    show_default=True,
    callback=above_zero(SECONDS, none=True),
    help="End a search that was not used for so long.",
)
@limit_options
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Use the manager that `hintcell serve` runs there, instead of a private one.",
)
@click.option("--http", metavar="[HOST:]PORT", help="Serve HTTP there, instead of standard input and output.")
@click.option("--allow-remote", is_flag=True, help="With --http: also on a HOST that others can reach.")
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    root: Path,
    principal: str,
    globs: tuple[str, ...],
    policy: Path | None,
    identifier_hints: bool,
    token_budget: int | None,
    max_sessions: int,
    idle_timeout: float | None,
    max_documents: int | None,
    max_text_bytes: int | None,
    max_request_bytes: int | None,
    directory: Path | None,
    http: str | None,
    allow_remote: bool,
) -> None:
    """Serve searches to an agent, as tools of the Model Context Protocol.

    An agent starts it and speaks to it over standard input and output; it ends with them. Whoever can speak to it
    reads what the principal may read: there is one principal per server, also over HTTP.
    """
    if directory is not None and context.get_parameter_source("idle_timeout") is not ParameterSource.DEFAULT:
        raise click.UsageError("--idle-timeout is for a private manager: give a shared one its own (`hintcell serve`)")
    limits = chosen_limits(max_documents, max_text_bytes, max_request_bytes)
    logging.disable(logging.CRITICAL)  # Libraries log what peers send, and messages of errors.
    try:
        from hintcell.integrations.mcp import Backend, FollowedPolicy, SearchServer, Settings, progress
    except ImportError as error:
        raise FailureError("this needs a library that is not installed: pip install 'hintcell[mcp]'") from error
    listening = None if http is None else _listening(http, allow_remote=allow_remote)
    followed = None if policy is None else FollowedPolicy(FilePolicySource(policy))
    settings = Settings(
        principal=principal,
        directory=directory,
        watcher=None if followed is None else followed.watch,
        labels=(_label(root),) if followed is None else (_label(root), LABEL),
        options=ManagerOptions(idle_timeout_s=idle_timeout),
        identifier_hints=identifier_hints,
        limits=limits,
        max_sessions=max_sessions,
    )
    catalog = folder_catalog(root, policy=followed, globs=globs, limits=limits, progress=progress)
    backend = Backend(catalog, settings)
    _serve_to_the_end(
        SearchServer(backend, folder=shown(str(root.resolve())), token_budget=token_budget), backend, listening
    )


def _label(root: Path) -> str:
    """What a search depends on, for permission changes; the same as of `hintcell search`."""
    return "folder:" + os.fsencode(root.resolve()).decode("utf-8", "backslashreplace")


def _listening(http: str, *, allow_remote: bool) -> socket.socket:
    host, _, port = http.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise click.UsageError("--http takes the form PORT or HOST:PORT")
    if not allow_remote and host not in _LOOPBACK:
        raise click.UsageError(
            f"whoever reaches {host} would read as the principal: use 127.0.0.1, or add --allow-remote"
        )
    from hintcell.integrations.mcp import listen

    try:
        return listen(host, int(port))
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while ")[0]
        raise FailureError(f"cannot listen on {http}: {reason}") from error


def _serve_to_the_end(server: "SearchServer", backend: "Backend", listening: socket.socket | None) -> NoReturn:
    """Serve until the input ends or a signal comes, close everything, and end the process.

    Not by returning: Python would wait for the thread that reads standard input.
    """
    from hintcell.integrations.mcp import serve

    status = EXIT_OK
    try:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
        _say_what_is_served(listening)
        serve(server, listening)
    except (Interrupted, KeyboardInterrupt):
        status = EXIT_INTERRUPTED
    except _TerminatedError:
        status = EXIT_TERMINATED
    except Exception as error:  # noqa: BLE001 - the process ends here, so a bug is told here
        click.echo(f"hintcell: internal error, please report it: {type(error).__name__}", err=True)
        status = EXIT_FAILED
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # Nothing interrupts the tidying up, which has a deadline.
    signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(status))
    signal.setitimer(signal.ITIMER_REAL, _CLOSE_DEADLINE_S)
    with contextlib.suppress(HintcellError):
        backend.close()
    os._exit(status)


def _terminate(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _TerminatedError


def _say_what_is_served(listening: socket.socket | None) -> None:
    if listening is not None:
        host, port = listening.getsockname()[:2]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        click.echo(f"hintcell: serving MCP on http://{place}/mcp", err=True)
    elif sys.stdin.isatty():
        click.echo("hintcell: speaking MCP on standard input and output, for an agent; Ctrl-C ends it", err=True)
