"""A worker in a fresh interpreter, for those who want no memory layout shared between sessions.

`python -P -m hintcell_worker.fresh --request JSON`, on the connection as standard input and output. It ranks as a
forked worker does; it only takes a second to start. Whoever starts it has the kernel end it with its parent.
"""

import argparse
import sys

import msgspec

from hintcell_worker import command
from hintcell_worker.template_protocol import EXIT_FAILED, Fork


def main() -> int:
    """Serve one connection and return the exit status."""
    parser = argparse.ArgumentParser(prog="hintcell_worker.fresh")
    parser.add_argument("--request", required=True)
    flags = parser.parse_args()
    try:
        request = msgspec.json.decode(flags.request, type=Fork)
    except msgspec.MsgspecError as error:
        print(f"hintcell-worker: cannot start: {error}", file=sys.stderr)
        return EXIT_FAILED
    return command.serve_fork(request)


if __name__ == "__main__":
    sys.exit(main())
