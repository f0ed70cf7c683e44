"""Kinds of option values: seconds, counts and sizes, all above zero, and `none` where no limit is possible.

They are callbacks of options whose type is text, as Click's own number types take `nan` and `inf`.
"""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

import click

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(?:([kmgt]?)(i?)b?)", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# More is no figure that anybody means, and a longer number cannot be sent.
_MOST: Final = 2**53
# poll(2) counts milliseconds in 31 bits: 24 days.
_MOST_SECONDS: Final = 2_000_000


class Kind(NamedTuple):
    """A kind of number.

    Attributes:
        metavar: its name in the help.
        expected: what it has to be, for the message.
        number: its value; None if the text is no such number.
    """

    metavar: str
    expected: str
    number: Callable[[str], int | float | None]


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if seconds <= _MOST_SECONDS else None


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < len(str(_MOST)) else None


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        return None
    size = float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].lower()]
    return int(size) if math.isfinite(size) else None


SECONDS: Final = Kind("SECONDS", "a number of seconds above 0, at most 2000000", _seconds)
COUNT: Final = Kind("COUNT", "a whole number above 0", _count)
SIZE: Final = Kind("SIZE", "a size such as 64MiB, 1.5GiB or a number of bytes", _size)


def above_zero(kind: Kind, *, none: bool) -> Callable[[click.Context, click.Parameter, str | None], int | float | None]:
    """The callback of an option of this kind; with `none`, the word is allowed and means None."""

    def value(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | float | None:
        if text is None or (none and text.lower() == "none"):
            return None
        number = kind.number(text)
        if number is None or not 0 < number <= _MOST:
            raise click.BadParameter(f"{text!r} is not {kind.expected}{', or none' if none else ''}")
        return number

    return value
