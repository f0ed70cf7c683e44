"""`python -P -m hintcell_manager serve`: one manager, until it is told to stop.

It stops on SIGTERM and SIGINT, and when the client that it is private to is gone. Exit status 0: it was told to
stop; 2: it could not start, and said why in one line; 1: a bug.
"""

import argparse
import asyncio
import logging
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hintcell_manager.door import answer
from hintcell_manager.protocol import ManagerOptions, Refused, default_directory
from hintcell_manager.runtime import RuntimeDirectory, RuntimeDirectoryError, private_directory
from hintcell_manager.service import Service

log = logging.getLogger("hintcell.manager")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the manager with these arguments (the process's own if None) and return its exit status."""
    parser = argparse.ArgumentParser(prog="hintcell_manager", allow_abbrev=False)
    commands = parser.add_subparsers(required=True)
    serve = commands.add_parser("serve", help="serve sessions until told to stop")
    where = serve.add_mutually_exclusive_group()
    where.add_argument("--directory", type=Path, default=default_directory(), help="where the sockets are")
    where.add_argument("--private-to", type=int, metavar="FD", help="descriptor of a socket to the client to serve")
    serve.add_argument("--options", default="{}", metavar="JSON", help="protocol.ManagerOptions as JSON")
    flags = parser.parse_args(arguments)
    lifeline = None if flags.private_to is None else socket.socket(fileno=flags.private_to)
    if lifeline is not None:
        lifeline.set_inheritable(False)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if lifeline is None else logging.ERROR,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    try:
        options = msgspec.json.decode(flags.options, type=ManagerOptions)
    except msgspec.MsgspecError as error:
        parser.error(f"--options: {error}")
    return run(flags.directory, options, lifeline)


def run(directory: Path, options: ManagerOptions, lifeline: socket.socket | None) -> int:
    """Serve in `directory`, or, with a lifeline, in a directory of the client's own."""
    try:
        place = private_directory() if lifeline else RuntimeDirectory(directory, remove_at_close=False)
        try:
            asyncio.run(_serve(place, options, lifeline))
        finally:
            place.close()
    except (RuntimeDirectoryError, OSError) as error:
        if lifeline is None or not answer(lifeline, Refused("cannot_start", str(error))):
            print(f"hintcell manager: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - the last place where a bug can still be told in one line
        log.critical("internal error, please report it: %s", _place(error))
        return 1
    return 0


async def _serve(place: RuntimeDirectory, options: ManagerOptions, lifeline: socket.socket | None) -> None:
    loop = asyncio.get_running_loop()
    service = Service(place, options, lifeline=lifeline)

    def broken(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A manager with a bug must not go on as if it kept its promises: without it, every worker dies.
        log.critical("internal error, stopping; please report it: %s", _place(context.get("exception")))
        service.request_stop()

    loop.set_exception_handler(broken)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, service.request_stop)
    service.start()
    await service.serve_until_stopped()


def _place(error: BaseException | None) -> str:
    """Where an error was raised: not its text, which might quote what a log must not hold."""
    frames = traceback.extract_tb(error.__traceback__) if error else traceback.StackSummary()
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
    return f"{type(error).__name__} at {where}"
