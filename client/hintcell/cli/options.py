"""Options that several commands have: who reads, and how much a snapshot may hold."""

import getpass
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from hintcell.cli.parameters import COUNT, SIZE, Kind, above_zero
from hintcell_worker.protocol import Limits, RequestError

USUAL_LIMITS: Final = Limits()
Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def login_name() -> str:
    """The user's name, or number where the account has none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid:{os.getuid()}"


def check_principal(_context: click.Context, _parameter: click.Parameter, principal: str) -> str:
    """The callback of an option that names who reads."""
    if not principal.strip():
        raise click.BadParameter("it is blank: name who will read")
    return check_text(principal)


def check_text(text: str) -> str:
    """The text, which can be sent.

    Raises:
        BadParameter: it holds bytes that are not UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("it is not valid UTF-8") from None
    return text


def limit_options(command: Decorated) -> Decorated:
    """Give a command the three options of what a snapshot may hold; `chosen_limits` takes their values."""
    for name, kind, what in reversed(
        (
            ("--max-documents", COUNT, f"Functions or texts in a snapshot. [default: {USUAL_LIMITS.max_documents}]"),
            ("--max-text-bytes", SIZE, "Text of all of them together. [default: 2MiB]"),
            ("--max-request-bytes", SIZE, "All of it encoded as JSON. [default: 16MiB]"),
        )
    ):
        command = _above_zero(name, kind, what)(command)
    return command


def chosen_limits(max_documents: int | None, max_text_bytes: int | None, max_request_bytes: int | None) -> Limits:
    """The limits that the options say.

    Raises:
        UsageError: they are higher than any can be, or do not go together.
    """
    limits = Limits(
        max_documents or USUAL_LIMITS.max_documents,
        max_text_bytes or USUAL_LIMITS.max_text_bytes,
        max_request_bytes or USUAL_LIMITS.max_request_bytes,
    )
    try:
        limits.check()
    except RequestError as error:
        raise click.UsageError(f"--{error}") from None
    return limits


def _above_zero(name: str, kind: Kind, what: str) -> Callable[[Decorated], Decorated]:
    return click.option(name, metavar=kind.metavar, callback=above_zero(kind, none=False), help=what)
