"""The transports, in a thread of their own, so that signals and the end of the process are the main thread's business.

The SDK reads standard input in a thread that nothing wakes: who has been told to end must not wait for it. So whoever
calls `serve` ends the process with `os._exit` when everything is closed.
"""

import functools
import socket
import threading
from typing import Final, cast

import anyio
import uvicorn

from hintcell.integrations.mcp.tools import SearchServer

PATH: Final = "/mcp"
_BACKLOG: Final = 64
# The kernel may give a signal to any thread, as to one that starts a process. Python runs the handler in the main one,
# which nothing wakes then.
_SIGNAL_DELAY_S: Final = 1.0
# The last answers are written in milliseconds, if somebody reads them.
_LAST_ANSWERS_S: Final = 2.0


def serve(server: SearchServer, listening: socket.socket | None = None) -> None:
    """Serve standard input and output until the input ends, or HTTP on a socket for ever.

    The last answers may still wait to be read by then.

    Raises:
        BaseException: what a signal's handler raises here, or what ended the serving, but for the peer's end.
    """
    run = server.run_stdio_async if listening is None else functools.partial(_serve_http, server, listening)
    failures: list[BaseException] = []

    def run_to_its_end() -> None:
        try:
            anyio.run(run)
        except BaseException as error:  # noqa: BLE001 - raised by the main thread
            failures.append(error)
        finally:
            server.input_ended.set()

    thread = threading.Thread(target=run_to_its_end, name="hintcell mcp", daemon=True)
    thread.start()
    while not server.input_ended.wait(_SIGNAL_DELAY_S):
        pass
    thread.join(_LAST_ANSWERS_S)
    for failure in failures:
        if not _is_of_peer(failure):
            raise failure


def _is_of_peer(failure: BaseException) -> bool:
    """Whether all that went wrong is that nobody reads the output any more."""
    if isinstance(failure, BaseExceptionGroup):
        return all(map(_is_of_peer, cast("BaseExceptionGroup[BaseException]", failure).exceptions))
    return isinstance(failure, BrokenPipeError)


async def _serve_http(server: SearchServer, listening: socket.socket) -> None:
    host: str = listening.getsockname()[0]
    application = server.streamable_http_app(host=host, streamable_http_path=PATH)
    await uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False)).serve([listening])


def listen(host: str, port: int) -> socket.socket:
    """A socket for HTTP.

    Raises:
        OSError: the address is none of this host's, or taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)
