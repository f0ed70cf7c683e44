"""Ids of functions: `path:line:qualified.name`, as valid, printable UTF-8 of at most 128 bytes."""

import os
from typing import Final

from hintcell_worker.protocol import MAX_ID_BYTES

# Stands for the leading folders of a path that is too long.
_CUT: Final = "…/".encode()


def identifier(path: str, line: int, name: str) -> str | None:
    """The id of the function `name` whose `def` is on `line` (from 1) of `path` (relative, with `/`).

    An id that is too long loses as few leading folders as it can, and starts with `…/` instead. None when not
    even the file's own name leaves enough room.
    """
    encoded = printable(path).encode()
    tail = f":{line}:{name}".encode()
    if len(encoded) + len(tail) <= MAX_ID_BYTES:
        return (encoded + tail).decode()
    room = MAX_ID_BYTES - len(_CUT) - len(tail)
    cut = encoded.find(b"/", max(0, len(encoded) - room - 1))
    return None if cut < 0 else (_CUT + encoded[cut + 1 :] + tail).decode()


def printable(path: str) -> str:
    r"""`path` with a backslash escape for each byte that is not UTF-8 (`\xff`) and each unprintable character.

    A file's name may hold any byte but 0 and `/`, so also line breaks and terminal controls.
    """
    if path.isprintable():
        return path
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
