"""The `hintcell` command as a process: its exit status, and Ctrl-C.

Exit status 0: it did what was asked; 1: it could not, and says why in one line; 2: it was not called right; 130:
interrupted by Ctrl-C, of which the first counts. `group` has the commands, `run` calls them. Everything that takes
time to load is loaded by `main`, when Ctrl-C has been taken care of; hence no `typing` here either.
"""

import os
import signal
import sys

EXIT_INTERRUPTED = 128 + signal.SIGINT

# Closing a session and stopping a manager takes a tenth of a second. What has not stopped then follows by itself when
# this process is gone.
INTERRUPTED_DEADLINE_S = 5


class Interrupted(BaseException):
    """Ctrl-C. Not KeyboardInterrupt, for which libraries have ideas of their own (Click prints an empty line)."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command with these arguments (the process's own if None) and return its exit status."""
    try:
        # Whoever started this process may have it ignore Ctrl-C, as a shell does for its background jobs.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _unraisable
        from hintcell.cli.run import run

        status = run(arguments)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # The work is done, and told; the process ends in a moment.
        return status
    except (Interrupted, KeyboardInterrupt):
        _wait_for_children()
        _say_interrupted()
        return EXIT_INTERRUPTED


def _interrupt(_number: int, _frame: object) -> None:
    """Raise Interrupted, wherever the process is, and let nothing interrupt its tidying up, which has a deadline."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, _leave_at_once)
    signal.alarm(INTERRUPTED_DEADLINE_S)
    raise Interrupted


def _unraisable(raised: "sys.UnraisableHookArgs") -> None:
    if raised.exc_type is Interrupted:  # It came in a finalizer, from where no exception gets out.
        _leave_at_once()
    sys.__unraisablehook__(raised)


def _leave_at_once(*_: object) -> None:
    _say_interrupted()
    os._exit(EXIT_INTERRUPTED)


def _say_interrupted() -> None:
    # The terminal has echoed `^C` in front of the cursor, which a progress bar may have hidden.
    start = "\x1b[?25h\n" if os.isatty(2) else ""
    try:
        os.write(2, f"{start}interrupted\n".encode())
    except OSError:
        pass  # Nobody is there to read it.


def _wait_for_children() -> None:
    """Wait for a manager that was interrupted while it was being started; the alarm ends the wait."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
