"""The analyzers: which words a text holds, as written and with identifiers split.

Words are maximal runs of letters (category L*) and decimal digits (Nd), after every code point has been
lower-cased on its own. Does not cover counting or scoring.

This form takes one text at a time: it defines what words are, and reads the query. `scan` says the same of all
documents at once. Each analyzer has a form for ASCII text and one for all of Unicode; they agree on ASCII, and the
tests hold both, and `scan`, against a plain reading of the rules, one code point at a time.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Iterable

_ASCII_WORD = re.compile(r"[a-z0-9]+")
_ASCII_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(text: str) -> list[str]:
    """The words of `text`, in order, repeats kept."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _unicode_word().findall(lower(text))


def split_identifiers(text: str) -> str:
    """`text` with a space at each place where an identifier's next part starts.

    That is before an upper-case letter (Lu) that follows a lower-case letter (Ll) or a digit (Nd), or that
    follows an upper-case letter and precedes a lower-case one: `HTTPServerID2` reads `HTTP Server ID2`.
    """
    return (_ASCII_BREAK if text.isascii() else _unicode_break()).sub(" ", text)


def lower(text: str) -> str:
    """Lower-case every code point by Unicode's simple mapping, whatever stands beside it.

    `str.lower` follows the full mapping, which differs for two letters: capital sigma, which depends on its
    neighbours, and capital I with dot above, which becomes two code points.
    """
    return text.replace("\u03a3", "\u03c3").replace("\u0130", "i").lower()


@functools.cache
def _unicode_word() -> re.Pattern[str]:
    # \w also takes the underscore and what is numeric without being a decimal digit (superscripts, Roman numerals).
    odd = _characters(
        code
        for code in range(sys.maxunicode + 1)
        if chr(code).isalnum() and (category := unicodedata.category(chr(code)))[0] != "L" and category != "Nd"
    )
    return re.compile(rf"[^\W_{odd}]+")


@functools.cache
def _unicode_break() -> re.Pattern[str]:
    by_category: dict[str, list[int]] = {"Lu": [], "Ll": [], "Nd": []}
    for code in range(sys.maxunicode + 1):
        if (members := by_category.get(unicodedata.category(chr(code)))) is not None:
            members.append(code)
    upper, small, digit = (_characters(members) for members in by_category.values())
    return re.compile(rf"(?<=[{small}{digit}])(?=[{upper}])|(?<=[{upper}])(?=[{upper}][{small}])")


def _characters(codes: Iterable[int]) -> str:
    """The inside of a regular expression's character class that holds `codes`, given in ascending order."""
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
