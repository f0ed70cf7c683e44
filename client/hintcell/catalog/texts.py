"""Text files as documents: sections below their headings, pieces between blank lines, or the whole file.

Covers Markdown, reStructuredText and plain text. Works line by line and never fails: what is not a heading by these
rules is text of the section above.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hintcell.catalog.identifiers import plain_name
from hintcell.catalog.model import Part

WHOLE: Final = "(file)"
NO_HEADING: Final = "(text)"

# Plain text is split where it is longer: about two screens.
_PIECE_CHARACTERS: Final = 4_000

# Of Markdown. What is indented more is code.
_MOST_INDENT: Final = 3
_LOWEST_LEVEL: Final = 6
# A line may be as long as a file, a name is not.
_NAME_FROM: Final = 300

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_UNDERLINE: Final = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
# What a line above `---` may be instead of a heading: an item, a quotation, a row of a table, a rule.
_NO_HEADING: Final = re.compile(r"\s*(?:$|[-*+>|]|\d+[.)]\s)|.*\|")
_ADORNMENT: Final = re.compile(r"([!-/:-@[-`{-~])\1*[ \t]*$")
_LINK: Final = re.compile(r"!?\[([^\][]*)\]\([^()]*\)")
_LINES: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


class _Heading(NamedTuple):
    first: int  # index of the first line that belongs to it: an adornment may stand above
    at: int  # index of its own line
    name: str


def whole(text: str) -> list[Part]:
    """One part with all of it; none if it is blank."""
    return _part(1, WHOLE, text)


def markdown(text: str) -> list[Part]:
    """One part for each heading, with the text to the next one of any level; what is above the first is one too."""
    return _sections(text, _markdown_headings)


def restructured_text(text: str) -> list[Part]:
    """One part for each title, with the text to the next one of any level; what is above the first is one too."""
    return _sections(text, _titles)


def plain_text(text: str) -> list[Part]:
    """The text in pieces of up to about 4,000 characters, split at blank lines where there are any; one if short."""
    if len(text) <= _PIECE_CHARACTERS:
        return _part(1, NO_HEADING, text)
    parts: list[Part] = []
    piece: list[str] = []
    first, size = 1, 0
    lines = _lines(text)
    # A piece ends at the blank line after which it would be too long without its next block, or in a long block.
    for number, line in enumerate(lines, 1):
        if size >= _PIECE_CHARACTERS or (size >= _PIECE_CHARACTERS // 2 and piece and not piece[-1].strip()):
            parts += _part(first, NO_HEADING, "".join(piece))
            piece, first, size = [], number, 0
        piece.append(line)
        size += len(line)
    return parts + _part(first, NO_HEADING, "".join(piece))


def _part(line: int, name: str, text: str) -> list[Part]:
    """A list of one, or of none if `text` is blank; blank lines at its end are dropped, so that `line` stays right."""
    return [Part(line, name, text.rstrip())] if text.strip() else []


def _lines(text: str) -> list[str]:
    """The lines with their ends, which are those of `bytes.splitlines`."""
    return [line for line in _LINES.findall(text) if line]


def _sections(text: str, headings: Callable[[list[str]], Iterator[_Heading]]) -> list[Part]:
    lines = _lines(text)
    found = list(headings([line.rstrip("\r\n") for line in lines]))
    if not found:
        return _part(1, NO_HEADING, text)
    parts = _part(1, NO_HEADING, "".join(lines[: found[0].first]))
    for heading, end in zip(found, [*(after.first for after in found[1:]), len(lines)], strict=True):
        parts += _part(heading.at + 1, _name(heading.name), "".join(lines[heading.first : end]))
    return parts


def _name(heading: str) -> str:
    return plain_name(_LINK.sub(r"\1", heading[:_NAME_FROM]).replace("`", "").replace("*", ""))


def _markdown_headings(lines: list[str]) -> Iterator[_Heading]:
    fence = ""
    before = ""  # the line above, if it can be a heading
    in_matter = lines[:1] == ["---"] and any(line == "---" for line in lines[1:])
    for at, line in enumerate(lines):
        if in_matter:
            in_matter = at == 0 or line != "---"
        elif fence:
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif match := _FENCE.match(line):
            fence, before = match[1], ""
        elif (name := _after_hashes(line)) is not None:
            yield _Heading(at, at, name)
            before = ""
        elif before and _UNDERLINE.match(line):
            yield _Heading(at - 1, at - 1, before)
            before = ""
        else:
            before = "" if _NO_HEADING.match(line) or line.startswith(("    ", "\t")) else line


def _after_hashes(line: str) -> str | None:
    """The heading on a line such as `## Heading ##`; None if it is none."""
    # By hand: a regular expression could be made to take for ever.
    hashes = line.lstrip(" ")
    level = len(hashes) - len(hashes.lstrip("#"))
    rest = hashes[level:]
    if len(line) - len(hashes) > _MOST_INDENT or not 1 <= level <= _LOWEST_LEVEL or rest[:1].strip():
        return None
    rest = rest.strip()
    opened = rest.rstrip("#")
    return rest if opened[-1:].strip() else opened.rstrip()


def _titles(lines: list[str]) -> Iterator[_Heading]:
    at = 0
    while at + 1 < len(lines):
        title, under = lines[at], lines[at + 1]
        if (
            title.strip()
            and not title[0].isspace()
            and not _ADORNMENT.match(title)
            and (at == 0 or not lines[at - 1].strip() or _is_over(lines[at - 1], under))
            and _ADORNMENT.match(under)
            and len(under.rstrip()) >= min(len(title.rstrip()), 4)
        ):
            over = at > 0 and _is_over(lines[at - 1], under)
            yield _Heading(at - over, at, title)
            at += 2
        elif (
            _ADORNMENT.match(title)
            and at + 2 < len(lines)
            and under[:1].isspace()
            and under.strip()
            and _is_over(title, lines[at + 2])
        ):
            yield _Heading(at, at + 1, under)  # inset below and above a line
            at += 3
        else:
            at += 1


def _is_over(line: str, under: str) -> bool:
    return line.rstrip() == under.rstrip() and _ADORNMENT.match(line) is not None
