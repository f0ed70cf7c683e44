"""The `hintcell-worker` command, and the loop that every worker runs, however it was started.

Exit status 0: the input was answered to its end, or its reader left. 2: the caller's input was refused. 1: our
own failure. With 1 and 2, one line on standard error says why.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.process import (
    OutputError,
    Streams,
    forbid_core_dumps,
    give_back_freed_memory,
    killed_after,
)
from hintcell_worker.protocol import Limits, RequestError
from hintcell_worker.template_protocol import EXIT_DONE, EXIT_FAILED, EXIT_REFUSED, Fork

# A message is one line and short, whatever name of a field the caller put into its request.
_MAX_MESSAGE: Final = 500
_NOT_PRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `hintcell-worker` with these arguments (the process's own if None) and return its exit status."""
    try:
        options = _parse(arguments)
    except RequestError as error:
        _complain(str(error))
        return EXIT_REFUSED
    return run(options)


def serve_fork(request: Fork) -> int:
    """Serve the conversation that a manager asked for, and return the exit status."""
    options = Options(
        session=request.session,
        limit=request.limit,
        identifier_hints=request.identifier_hints,
        cursor=request.cursor,
        limits=request.limits,
    )
    return run(options, ranking_deadline_s=request.ranking_deadline_s)


def run(options: Options, *, ranking_deadline_s: float | None = None) -> int:
    """Serve one conversation on this process's standard streams and return the exit status.

    Args:
        options: the conversation's.
        ranking_deadline_s: be killed by SIGALRM, whatever code is running, if ranking takes longer.
    """
    try:
        conversation = Conversation(options, while_ranking=lambda: killed_after(ranking_deadline_s))
        forbid_core_dumps()
        _serve(conversation, Streams(), keep_open=options.session)
    except RequestError as error:
        _complain(str(error))
        return EXIT_REFUSED
    except OutputError as error:
        _complain(str(error))
        return EXIT_FAILED
    except MemoryError:
        _complain("out of memory: send fewer documents")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 128 + 2
    except Exception as error:  # noqa: BLE001 - Its text might quote a document, so only the place is told.
        _complain(f"internal error, please report it: {_place(error)}")
        return EXIT_FAILED
    return EXIT_DONE


def _serve(conversation: Conversation, streams: Streams, *, keep_open: bool) -> None:
    is_first = True
    while data := streams.read():
        for answer in conversation.receive(data):
            if not streams.write(answer):
                return
            if is_first and keep_open:
                give_back_freed_memory()
                is_first = False
        del data
    for answer in conversation.end_of_input():
        if not streams.write(answer):
            return


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise RequestError(f"{message}: see --help")


def _parse(arguments: Sequence[str] | None) -> Options:
    parser = _Parser(
        prog="hintcell-worker",
        description="Rank documents for one query: "
        "a JSON request on standard input, a JSON response on standard output.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--session", "-session", action="store_true", help="first line: the request; then {cursor, limit} lines"
    )
    parser.add_argument(
        "--limit", "-limit", type=_whole_number, default=0, metavar="N", help="candidates in a page, 1 to 4096; 0: all"
    )
    parser.add_argument(
        "--identifier-hints",
        "-identifier-hints",
        action="store_true",
        help="interleave a ranking by parts of identifiers",
    )
    parser.add_argument("--cursor", "-cursor", default="", metavar="C", help="next_cursor of the page before")
    usual = Limits()
    for name, value, what in (
        ("max-documents", usual.max_documents, "documents that a request may hold"),
        ("max-text-bytes", usual.max_text_bytes, "bytes of text in all of them together"),
        ("max-request-bytes", usual.max_request_bytes, "bytes of the request"),
    ):
        parser.add_argument(
            f"--{name}", f"-{name}", type=_whole_number, default=value, metavar="N", help=f"{what}; by default {value}"
        )
    flags = parser.parse_args(arguments)
    return Options(
        session=flags.session,
        limit=flags.limit,
        identifier_hints=flags.identifier_hints,
        cursor=flags.cursor,
        limits=Limits(flags.max_documents, flags.max_text_bytes, flags.max_request_bytes),
    )


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise argparse.ArgumentTypeError("not a whole number")
    return int(text)


def _complain(message: str) -> None:
    line = _NOT_PRINTABLE.sub(" ", message)[:_MAX_MESSAGE]
    try:
        print(f"hintcell-worker: {line}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # Nobody can be told; the exit status still says it.


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "unknown place"
    return f"{type(error).__name__} at {where}"
