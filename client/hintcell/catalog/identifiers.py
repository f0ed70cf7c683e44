"""Ids of documents: `path:line:qualified.name`, as valid, printable UTF-8 of at most 128 bytes.

A path may hold colons; a line and a name do not, so that an id can be taken apart from its end.
"""

import os
from typing import Final

from hintcell_worker.protocol import MAX_ID_BYTES

# Stands for the leading folders of a path that is too long.
_CUT: Final = "…/".encode()

# A heading may be a whole sentence, and the name of a method an expression.
_MAX_NAME: Final = 60


def identifier(path: str, line: int, name: str) -> str | None:
    """The id of what is called `name` and is on `line` (from 1) of `path` (relative, with `/`).

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


def plain_name(name: str) -> str:
    """`name` for an id: printable, on one line, without colons (`A::b` is `A.b`), of at most 60 characters."""
    plain = printable(" ".join(name.split())).strip("\"'`").replace("::", ".").replace(":", "").strip(" .")
    return (plain if len(plain) <= _MAX_NAME else plain[: _MAX_NAME - 1].rstrip() + "…") or "_"
