"""From a file's bytes to its text: UTF-8 with replacement, and of Python the encoding that the source declares.

Line ends stay as they are in the file; a byte order mark is dropped.
"""

import codecs
import io
import re
import tokenize
from typing import Final

from hintcell.catalog.languages import PYTHON

# Takes time that grows with the square of the length: for a large file, half an hour.
_SLOW: Final = "punycode"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def text_of(source: bytes, language: str | None) -> str:
    """The text of a file with these bytes; what is not valid in its encoding is U+FFFD. It can be encoded as UTF-8."""
    if language == PYTHON and (declared := _declared(source)):
        try:
            return _LONE_SURROGATE.sub("\ufffd", source.decode(declared, "replace"))
        except (LookupError, ValueError):  # It is no encoding of text, or one that cannot replace.
            pass
    return source.decode("utf-8-sig", "replace")


def _declared(source: bytes) -> str | None:
    """The encoding that Python source declares (PEP 263), unless it cannot be used or is UTF-8."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        return None
    name = codecs.lookup(encoding).name  # However it is spelt.
    return None if name == _SLOW or name.startswith("utf-8") else encoding
