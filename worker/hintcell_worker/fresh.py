"""A worker in a fresh interpreter, for those who want no memory layout shared between sessions.

`python -P -m hintcell_worker.fresh --parent PID --request JSON`, on the connection as standard input and output.
It ranks as a forked worker does, and dies with its parent like one; it only takes a second to start.
"""

import argparse
import sys

import msgspec

from hintcell_worker import command
from hintcell_worker.process import die_with_parent
from hintcell_worker.template_protocol import EXIT_FAILED, Fork


def main() -> int:
    """Serve one connection and return the exit status."""
    parser = argparse.ArgumentParser(prog="hintcell_worker.fresh")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--request", required=True)
    flags = parser.parse_args()
    try:
        die_with_parent(flags.parent)
        request = msgspec.json.decode(flags.request, type=Fork)
    except (OSError, msgspec.MsgspecError) as error:
        print(f"hintcell-worker: cannot start: {error}", file=sys.stderr)
        return EXIT_FAILED
    return command.serve_fork(request)


if __name__ == "__main__":
    sys.exit(main())
