"""Figures and foreign text as the commands show them: sizes, times, a sparkline, and nothing that steers a terminal.

Principals, labels and snapshots are whatever a client called them; a terminal gets no control character of theirs.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from hintcell_manager.protocol import Sample

NOTHING: Final = "-"

_MIB: Final = 1024 * 1024
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400

_BARS: Final = "▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = "_.:-=+*#"

# What may be unprintable in JSON is not ASCII, or DEL, and stands in a string: other control characters are escaped.
_PERHAPS_UNPRINTABLE: Final = re.compile(r"[^\x00-\x7e]")


def shown(text: str) -> str:
    r"""`text` with a backslash escape for each unprintable character (`\x1b`)."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def json_line(message: msgspec.Struct) -> bytes:
    """The message as one line of JSON in UTF-8, in which every unprintable character is escaped."""
    text = msgspec.json.encode(message).decode()
    return (_PERHAPS_UNPRINTABLE.sub(_escaped, text) + "\n").encode()


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def mib(size_bytes: int | None) -> str:
    """A size in MiB, without the unit."""
    return NOTHING if size_bytes is None else f"{size_bytes / _MIB:,.1f}"


def age(seconds: float) -> str:
    """A time that has passed, in two units at most: `12s`, `3m05s`, `2h10m`, `4d01h`."""
    whole = int(seconds)
    if whole < _MINUTE_S:
        return f"{whole}s"
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S}m{whole % _MINUTE_S:02}s"
    if whole < _DAY_S:
        return f"{whole // _HOUR_S}h{whole % _HOUR_S // _MINUTE_S:02}m"
    return f"{whole // _DAY_S}d{whole % _DAY_S // _HOUR_S:02}h"


def duration(seconds: float) -> str:
    """How long something took: `3.1 ms`, `2.40 s`."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def counted(number: int, one: str) -> str:
    """`1 session`, `2 sessions`, for the word for one."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def counts(by_reason: dict[str, int]) -> str:
    """`completed 10, crashed 1`, the most frequent first; `none`."""
    ordered = sorted(by_reason.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{shown(reason)} {count:,}" for reason, count in ordered) or "none"


def sparkline(history: Sequence[Sample], width: int, *, ascii_only: bool = False) -> str:
    """A session's USS over its life, from nothing to its maximum; its RSS as long as no USS was read.

    Of several points that share a cell the highest is shown.
    """
    values: list[int] = []
    uss_bytes: int | None = None
    measured = any(sample.uss_bytes is not None for sample in history)
    for sample in history:
        uss_bytes = sample.uss_bytes if sample.uss_bytes is not None else uss_bytes
        if not measured:
            values.append(sample.rss_bytes)
        elif uss_bytes is not None:
            values.append(uss_bytes)
    cells = min(width, len(values))
    highest = max(values, default=0) or 1
    bars = _ASCII_BARS if ascii_only else _BARS
    parts = (values[cell * len(values) // cells : (cell + 1) * len(values) // cells] for cell in range(cells))
    return "".join(bars[max(part) * (len(bars) - 1) // highest] for part in parts)
