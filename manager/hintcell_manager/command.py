"""`python -P -m hintcell_manager serve|keys`: run one manager until it is told to stop, or make keys for its control.

A manager stops on SIGTERM, SIGINT and SIGHUP (unless it was started with that ignored, as by `nohup`), and when the
client that it is private to is gone. Exit status 0: it was told to stop; 2: it could not start, and said why in one
line; 1: a bug.
"""

import argparse
import asyncio
import contextlib
import logging
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hintcell_manager.door import answer
from hintcell_manager.protocol import ManagerOptions, Refused, StatusRequest, default_directory
from hintcell_manager.remote import ROLES, Keys, KeysError, RemoteControl, Role, make_keys
from hintcell_manager.runtime import RuntimeDirectory, RuntimeDirectoryError, private_directory
from hintcell_manager.service import Service

if TYPE_CHECKING:
    from hintcell_manager.metrics import Metrics

log = logging.getLogger("hintcell.manager")


class Endpoints(msgspec.Struct, frozen=True):
    """What a manager serves besides its runtime directory, if asked to.

    Attributes:
        control: `tcp://HOST:PORT` for control from elsewhere; needs `keys`.
        keys: a directory as `remote` describes it.
        metrics: `HOST:PORT` for Prometheus.
    """

    control: str | None = None
    keys: Path | None = None
    metrics: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the manager with these arguments (the process's own if None) and return its exit status."""
    parser = argparse.ArgumentParser(prog="hintcell_manager", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve sessions until told to stop")
    where = serve.add_mutually_exclusive_group()
    where.add_argument("--directory", type=Path, default=default_directory(), help="where the sockets are")
    where.add_argument("--private-to", type=int, metavar="FD", help="descriptor of a socket to the client to serve")
    serve.add_argument("--options", default="{}", metavar="JSON", help="protocol.ManagerOptions as JSON")
    serve.add_argument("--control", metavar="tcp://HOST:PORT", help="also serve control requests there; needs --keys")
    serve.add_argument("--keys", type=Path, metavar="DIR", help="the keys of this manager and of who may connect")
    serve.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics there")
    keys = commands.add_parser("keys", help="make keys for control from elsewhere")
    keys.add_argument("directory", type=Path, help="the manager's directory of keys; made if it does not exist")
    keys.add_argument("--client", metavar="NAME", help="make a key for this client")
    keys.add_argument("--role", choices=ROLES, default="observe", help="what the client may do")
    flags = parser.parse_args(arguments)
    if flags.command == "keys":
        return _make_keys(flags.directory, flags.client, flags.role)
    try:
        options = msgspec.json.decode(flags.options, type=ManagerOptions)
    except msgspec.MsgspecError as error:
        parser.error(f"--options: {error}")
    lifeline = None if flags.private_to is None else socket.socket(fileno=flags.private_to)
    if lifeline is not None:
        lifeline.set_inheritable(False)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if lifeline is None else logging.ERROR,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    return run(flags.directory, options, Endpoints(flags.control, flags.keys, flags.metrics), lifeline)


def run(directory: Path, options: ManagerOptions, endpoints: Endpoints, lifeline: socket.socket | None) -> int:
    """Serve in `directory`, or, with a lifeline, in a directory of the client's own."""
    try:
        place = private_directory() if lifeline else RuntimeDirectory(directory, remove_at_close=False)
        try:
            asyncio.run(_serve(place, options, endpoints, lifeline))
        finally:
            place.close()
    except (RuntimeDirectoryError, KeysError, EndpointError, OSError) as error:
        if lifeline is None or not answer(lifeline, Refused("cannot_start", str(error))):
            print(f"hintcell manager: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001 - the last place where a bug can still be told in one line
        log.critical("internal error, please report it: %s", _place(error))
        return 1
    return 0


class EndpointError(Exception):
    """An endpoint was asked for in a way that cannot be; the message says what to do."""


def _make_keys(directory: Path, client: str | None, role: Role) -> int:
    try:
        for path in make_keys(directory, client, role):
            print(path)
    except (KeysError, OSError) as error:
        print(f"hintcell keys: {error}", file=sys.stderr)
        return 2
    return 0


async def _serve(
    place: RuntimeDirectory, options: ManagerOptions, endpoints: Endpoints, lifeline: socket.socket | None
) -> None:
    loop = asyncio.get_running_loop()
    service = Service(place, options, lifeline=lifeline)

    def broken(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A manager with a bug must not go on as if it kept its promises: without it, every worker dies.
        log.critical("internal error, stopping; please report it: %s", _place(context.get("exception")))
        service.request_stop()

    loop.set_exception_handler(broken)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue
        loop.add_signal_handler(number, service.request_stop)
    async with contextlib.AsyncExitStack() as at_stop:
        if endpoints.control is not None:
            remote = RemoteControl(endpoints.control, _keys(endpoints), service.handle)
            at_stop.push_async_callback(remote.close)
            log.info("control endpoint=%s", remote.endpoint)
        if endpoints.metrics is not None:
            metrics = _metrics(endpoints.metrics, service)
            at_stop.push_async_callback(asyncio.to_thread, metrics.close)
            log.info("metrics port=%d", metrics.port)
        service.start()
        log.info("serving instance=%s", service.instance)
        await service.serve_until_stopped()
        log.info("stopped instance=%s", service.instance)


def _keys(endpoints: Endpoints) -> Keys:
    if endpoints.keys is None:
        raise EndpointError("--control needs --keys: without keys, nothing listens on TCP (see `hintcell keys --help`)")
    return Keys(endpoints.keys)


def _metrics(address: str, service: Service) -> "Metrics":
    try:
        from hintcell_manager.metrics import Metrics
    except ImportError as error:
        raise EndpointError("--metrics needs prometheus_client: pip install 'hintcell[metrics]'") from error
    try:
        return Metrics(address, lambda: service.status(StatusRequest()))
    except ValueError as error:
        raise EndpointError(f"--metrics: {error}") from error


def _place(error: BaseException | None) -> str:
    """Where an error was raised: not its text, which might quote what a log must not hold."""
    frames = traceback.extract_tb(error.__traceback__) if error else traceback.StackSummary()
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
    return f"{type(error).__name__} at {where}"
