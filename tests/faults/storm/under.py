"""Run a command as the child of a parent that leaves its signals in a certain state.

`python -m tests.faults.storm.under ignored|blocked|ordinary COMMAND…`: SIGCHLD ignored or blocked, both of which
survive exec. The command dies with whoever started this.
"""

import os
import signal
import sys

from tests.faults.storm.processes import die_with_parent


def main() -> None:
    """Become the command."""
    state, *command = sys.argv[1:]
    die_with_parent()
    if state == "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    elif state == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGALRM, signal.SIGTERM})
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
