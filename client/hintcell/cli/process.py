"""Becoming the manager's own command, so that whoever started this process holds it itself."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from hintcell.cli.group import FailureError


def become_manager(arguments: Sequence[str]) -> NoReturn:
    """Go on as `python -m hintcell_manager` with these arguments.

    Raises:
        FailureError: this Python cannot be started again.
    """
    if not sys.executable:
        raise FailureError("this Python does not know its own executable: run `python -m hintcell_manager`")
    try:
        os.execv(  # noqa: S606 - the arguments are ours, and there is no shell
            sys.executable, [sys.executable, "-P", "-m", "hintcell_manager", *arguments]
        )
    except OSError as error:
        raise FailureError(f"cannot start {sys.executable}: {error.strerror}") from error
    except ValueError as error:
        raise FailureError(f"cannot start {sys.executable}: {error}") from error
