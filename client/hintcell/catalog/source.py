"""The functions of one source file, in any of `languages.LANGUAGES`, and the rest. Nothing is executed or imported.

A function or method is taken when it is in no other; what is nested in a function belongs to that function's text.
Where the source cannot be parsed, the functions around are found all the same.

A query says what a language's functions are, by the names of its captures: `@function` and `@container` (a class,
a module and the like) with the `@name` of each; `@receiver`, the type that a method outside of it belongs to;
`@wrapper`, what stands around a function (the `@wrapped`) and belongs to it; `@above`, what does on the lines before
it, such as comments; `@line`, the node that an id's line is taken from, by default the name; and `@import`, which says
what other files are called and is in no part, unless it is within a function. A `@macro` is a function if it has more
than one line: headers have thousands of the others.
"""

import re
import time
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Final, NamedTuple

from tree_sitter import Node, Parser, QueryCursor, Tree

from hintcell.catalog.identifiers import plain_name, printable
from hintcell.catalog.languages import PYTHON, grammar
from hintcell.catalog.model import Part
from hintcell_worker.protocol import MAX_ID_BYTES

# A file of 2 MiB takes about a second. Some take a time that grows with the square of their size, such as one with
# thousands of comments that do not end, and nobody waits for each of them for long.
_DEADLINE_S: Final = 5.0

# The parser holds every piece that it was given until it is done, and asks again from where it goes back to.
_PIECE_BYTES: Final = 4 * 1024

# A return that no line feed follows ends a line for Python's parser, for editors and for us, but not for the grammars.
_BARE_RETURN: Final = re.compile(rb"\r(?!\n)")

# Of an expression that stands for a name.
_NAME_FROM: Final = 300

_TEMPLATE_ARGUMENTS: Final = re.compile(r"<[^<>]*>")


# A query takes time that grows with the square of how many tokens without a name follow each other: 5,000 take 20 ms,
# a million would take an hour. People write no such source; what cannot be parsed may be taken for it.
_MOST_TOKENS: Final = 5_000
_PUNCTUATION: Final = re.compile(rb"(?:[-;,(){}\[\]<>.:=+*&|!?@$%^~]\s*+)++")
# Types within types so deep are nobody's source; a parser that looks for all their readings takes all memory.
_NESTED_TYPES: Final = re.compile(rb"(?:\w{0,32}+<\s*+){100}")


# On a longer line there may be thousands of functions, and each would bring the whole line.
_LONG_LINE_BYTES: Final = 300

# The name of what is in no function: declarations, constants, what is said of a class or of the whole file.
REST: Final = "(rest)"
_WORD: Final = re.compile(r"[^\W_]")


def _is_made_up(source: bytes) -> bool:
    """Whether a parser or a query would take its time for what no person has written."""
    if _NESTED_TYPES.search(source):
        return True
    runs = (found[0] for found in _PUNCTUATION.finditer(source) if found.end() - found.start() >= _MOST_TOKENS)
    return any(len(b"".join(run.split())) >= _MOST_TOKENS for run in runs)


class TooSlowError(Exception):
    """The source was not parsed in time, or would not be."""


class Extent(NamedTuple):
    """From a first byte to before the last."""

    start: int
    end: int


class _Span(NamedTuple):
    start: int
    minus_end: int  # what starts at the same place and ends later comes first
    is_function: bool
    name: str
    line: int
    node: Node

    @property
    def end(self) -> int:
        return -self.minus_end


class Parsed(NamedTuple):
    """A file of source: its functions, by line, and what is in none of them."""

    functions: list[Part]
    rest: list[Part]


def parse(text: str, language: str) -> Parsed:
    """The functions of a file with this text, and the rest; `text` has no lone surrogate.

    A function's part runs from the first line of what belongs to it (comments and the like directly above it,
    decorators) to its last line, as in the file, without the last line's break. Of Python, it starts with the first
    decorator or `def`; of other languages, only the function is taken of a line with more than 300 bytes. Its line
    (from 1) is that of the function's name.

    The rest is one part, or none if it has no word: what is before, between and after functions and imports, in its
    order. Its line is the first of it that is not blank.

    Raises:
        TooSlowError: parsing takes more than 5 seconds, or would: the source is no source.
    """
    source = _Source(text.encode(), language)
    functions: list[Part] = []
    extents: list[Extent] = []
    containers: list[tuple[_Span, str]] = []  # each with the names of all of them, or as many as no id has room for
    taken_to = 0
    for span in source.spans():
        if span.start < taken_to:
            continue
        while containers and containers[-1][0].end <= span.start:
            containers.pop()
        name = f"{containers[-1][1]}.{span.name}" if containers else span.name
        if not span.is_function:
            containers.append((span, name[: MAX_ID_BYTES + 1]))
            continue
        taken_to = span.end
        extents.append(source.extent_of(span.node))
        functions.append(Part(span.line, name, source.text_in(extents[-1])))
    return Parsed(sorted(functions), source.rest_of([*extents, *source.imports]))


def functions_of(text: str, language: str) -> list[Part]:
    """As `parse`, the functions alone."""
    return parse(text, language).functions


class _Source:
    """A file's bytes, where its lines are, and what stands around and above its functions."""

    def __init__(self, encoded: bytes, language: str) -> None:
        self._encoded = encoded
        self._language = language
        self._lines = encoded.splitlines(keepends=True)  # of bytes, at line feeds and returns alone
        self._starts = [0, *accumulate(map(len, self._lines))]
        self._wrappers: dict[int, Node] = {}  # by the ids of what they are around
        self._above: dict[int, int] = {}  # the first row of what ends in a row
        self.imports: list[Extent] = []

    def spans(self) -> list[_Span]:
        """Functions and containers in the order in which they start, and what is within another after it."""
        if _is_made_up(self._encoded):
            raise TooSlowError
        loaded, query = grammar(self._language)
        tree = _parse(Parser(loaded), _BARE_RETURN.sub(b"\n", self._encoded))
        if _has_long_error(tree.root_node):
            raise TooSlowError
        spans: list[_Span] = []
        # It has no bound of its own: with a callback for progress, `matches` ends the process (py-tree-sitter 0.26.1).
        for _, captures in QueryCursor(query).matches(tree.root_node):
            for node in captures.get("wrapped", ()):
                self._wrappers[node.id] = captures["wrapper"][0]
            for node in captures.get("above", ()):
                self._add_above(node)
            self.imports += [Extent(node.start_byte, node.end_byte) for node in captures.get("import", ())]
            for node in captures.get("macro", ()):
                if _last_row(node) > node.start_point.row:
                    captures["function"] = [node]
            spans += [self._span(captures, kind) for kind in ("function", "container") if kind in captures]
        spans.sort(key=attrgetter("start", "minus_end", "is_function"))
        return spans

    def extent_of(self, function: Node) -> Extent:
        """Where the lines of a function are, with what belongs to it."""
        first = function
        while (wrapper := self._wrappers.get(first.id)) is not None:
            first = wrapper
        row, last = first.start_point.row, _last_row(_last_part(function))
        # Of Python, no two functions are on one line.
        is_long = [self._language != PYTHON and len(self._lines[at]) > _LONG_LINE_BYTES for at in (row, last)]
        while (above := self._above.get(row - 1)) is not None:
            row = above
        start = first.start_byte if is_long[0] else self._starts[row]
        end = function.end_byte if is_long[1] else self._starts[last + 1]
        return Extent(start, end)

    def text_in(self, extent: Extent) -> str:
        """The text there, without its last line's break."""
        return self._encoded[extent.start : extent.end].decode().rstrip("\r\n")

    def rest_of(self, extents: Sequence[Extent]) -> list[Part]:
        """What is in none of `extents`: one part, or none."""
        gaps: list[tuple[Extent, str]] = []
        at = 0
        for extent in [*sorted(extents), Extent(len(self._encoded), len(self._encoded))]:
            if at < extent.start:
                gap = self._from_first_line(Extent(at, extent.start))
                text = self.text_in(gap).rstrip()
                if _WORD.search(text):
                    gaps.append((gap, text))
            at = max(at, extent.end)
        if not gaps:
            return []
        return [Part(bisect_right(self._starts, gaps[0][0].start), REST, "\n".join(text for _, text in gaps))]

    def _from_first_line(self, extent: Extent) -> Extent:
        """Without the blank lines that it starts with."""
        at = extent.end - len(self._encoded[extent.start : extent.end].lstrip())
        return Extent(max(extent.start, self._starts[bisect_right(self._starts, at) - 1]), extent.end)

    def _span(self, captures: Mapping[str, Sequence[Node]], kind: str) -> _Span:
        node, name_node = captures[kind][0], captures["name"][0]
        name = ".".join(self._name(part) for part in [*captures.get("receiver", ())[:1], name_node])
        line = captures.get("line", [name_node])[0].start_point.row + 1
        return _Span(node.start_byte, -node.end_byte, kind == "function", name, line, node)

    def _name(self, node: Node) -> str:
        # Not `node.text`, which reads the source again and copies all of it for each name.
        name = self._encoded[node.start_byte : node.end_byte].decode("utf-8", "replace")
        if self._language == PYTHON:
            return printable(unicodedata.normalize("NFKC", name))  # as Python's own parser does
        name = name[:_NAME_FROM]
        if "operator " in name:  # C++ to another type, with its parentheses
            name = name.partition("(")[0]
        elif self._language == "cpp" and "operator" not in name:
            while name != (name := _TEMPLATE_ARGUMENTS.sub("", name)):
                pass
        return plain_name(name)

    def _add_above(self, node: Node) -> None:
        """Note what is on lines of its own."""
        first, last = node.start_point.row, _last_row(node)
        before = self._lines[first][: node.start_point.column]
        after = self._lines[last][node.end_point.column :] if node.end_point.row == last else b""
        if not before.strip() and not after.strip():
            self._above[last] = min(first, self._above.get(last, first))


def _parse(parser: Parser, source: bytes) -> Tree:
    deadline = time.monotonic() + _DEADLINE_S
    pieces = [source[start : start + _PIECE_BYTES] for start in range(0, len(source), _PIECE_BYTES)]

    def read(offset: int, _point: object) -> bytes:
        number, start = divmod(offset, _PIECE_BYTES)
        return pieces[number][start:] if number < len(pieces) else b""  # All of a piece is no copy.

    try:
        return parser.parse(read, progress_callback=lambda _offset, _error: time.monotonic() > deadline)
    except ValueError as error:
        raise TooSlowError from error


def _has_long_error(root: Node) -> bool:
    """Whether there is a run of tokens that the parser could not put together."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.has_error:
            if node.child_count - node.named_child_count > _MOST_TOKENS:
                return True
            nodes += node.children
    return False


def _last_part(node: Node) -> Node:
    """The last thing in `node` that is no comment: Python's blocks may end with some."""
    while True:
        last = next((child for child in reversed(node.children) if not child.is_extra), None)
        if last is None:
            return node
        node = last


def _last_row(node: Node) -> int:
    """The last row with something of `node`: some nodes end at the start of the next."""
    end = node.end_point
    return end.row - (end.column == 0 and end.row > node.start_point.row)
