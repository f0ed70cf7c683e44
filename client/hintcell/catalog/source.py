"""The functions of one source file, in any of `languages.LANGUAGES`. Nothing is executed or imported.

A function or method is taken when it is in no other; what is nested in a function belongs to that function's text.
Where the source cannot be parsed, the functions around are found all the same.

A query says what a language's functions are, by the names of its captures: `@function` and `@container` (a class,
a module and the like) with the `@name` of each; `@receiver`, the type that a method outside of it belongs to;
`@wrapper`, what stands around a function (the `@wrapped`) and belongs to it; `@above`, what does on the lines before
it, such as comments; and `@line`, the node that an id's line is taken from, by default the name. A `@macro` is a
function if it has more than one line: headers have thousands of the others.
"""

import re
import time
import unicodedata
from collections.abc import Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from tree_sitter import Node, Parser, QueryCursor, Tree

from hintcell.catalog.identifiers import plain_name, printable
from hintcell.catalog.languages import PYTHON, grammar
from hintcell.catalog.model import Part

# A file of 2 MiB takes about a second, and made-up ones may take several.
_DEADLINE_S: Final = 20.0

# A return that no line feed follows ends a line for Python's parser, for editors and for us, but not for the grammars.
_BARE_RETURN: Final = re.compile(rb"\r(?!\n)")

# Of an expression that stands for a name.
_NAME_FROM: Final = 300

_TEMPLATE_ARGUMENTS: Final = re.compile(r"<[^<>]*>")


# A query takes time that grows with the square of how many tokens without a name follow each other: 5,000 take 20 ms,
# a million would take an hour. People write no such source; what cannot be parsed may be taken for it.
_MOST_TOKENS: Final = 5_000
_PUNCTUATION: Final = re.compile(rb"(?:[-;,(){}\[\]<>.:=+*&|!?@$%%^~]\s*+){%d}" % _MOST_TOKENS)


class TooSlowError(Exception):
    """The source was not parsed in time, or would not be."""


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


def functions_of(text: str, language: str) -> list[Part]:
    """The functions of a file with this text, by line; `text` has no lone surrogate.

    A part runs from the first line of what belongs to the function (comments and the like directly above it,
    decorators) to its last line, as in the file, without the last line's break. Of Python, it starts with the first
    decorator or `def`. Its line (from 1) is that of the function's name.

    Raises:
        TooSlowError: parsing takes more than 20 seconds, or would: the source is no source.
    """
    encoded = text.encode()
    lines = encoded.splitlines(keepends=True)  # of bytes, at line feeds and returns alone
    loaded, query = grammar(language)
    deadline = time.monotonic() + _DEADLINE_S
    if _PUNCTUATION.search(encoded):
        raise TooSlowError
    tree = _parse(Parser(loaded), _BARE_RETURN.sub(b"\n", encoded), deadline)
    if _has_long_error(tree.root_node):
        raise TooSlowError
    # It has no bound of its own: with a callback for progress, `matches` ends the process (py-tree-sitter 0.26.1).
    matches = QueryCursor(query).matches(tree.root_node)
    spans: list[_Span] = []
    wrappers: dict[int, Node] = {}  # by the ids of what they are around
    above: dict[int, int] = {}  # the first row of what ends in a row
    for _, captures in matches:
        for node in captures.get("wrapped", ()):
            wrappers[node.id] = captures["wrapper"][0]
        for node in captures.get("above", ()):
            first, last = node.start_point.row, _last_row(node)
            after = lines[last][node.end_point.column :] if node.end_point.row == last else b""
            if not lines[first][: node.start_point.column].strip() and not after.strip():
                above[last] = min(first, above.get(last, first))
        if "macro" in captures:
            [node] = captures["macro"]
            if _last_row(node) == node.start_point.row:
                continue
            captures["function"] = [node]
        if "name" in captures:
            spans.append(_span(captures, language))
    spans.sort(key=attrgetter("start", "minus_end", "is_function"))
    parts: list[Part] = []
    containers: list[_Span] = []
    taken_to = 0
    for span in spans:
        if span.start < taken_to:
            continue
        while containers and containers[-1].end <= span.start:
            containers.pop()
        if not span.is_function:
            containers.append(span)
            continue
        taken_to = span.end
        first = _first_row(span.node, wrappers, above)
        body = b"".join(lines[first : _last_row(_last_part(span.node)) + 1]).decode().rstrip("\r\n")
        parts.append(Part(span.line, ".".join([*(container.name for container in containers), span.name]), body))
    parts.sort()
    return parts


def _parse(parser: Parser, source: bytes, deadline: float) -> Tree:
    def read(offset: int, _point: object) -> bytes:
        return source[offset:] if offset else source

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


def _span(captures: dict[str, list[Node]], language: str) -> _Span:
    is_function = "function" in captures
    [node] = captures["function" if is_function else "container"][:1]
    name_node = captures["name"][0]
    name = ".".join(_name(part, language) for part in [*captures.get("receiver", ())[:1], name_node])
    line = captures.get("line", [name_node])[0].start_point.row + 1
    return _Span(node.start_byte, -node.end_byte, is_function, name, line, node)


def _name(node: Node, language: str) -> str:
    name = (node.text or b"").decode("utf-8", "replace")
    if language == PYTHON:
        return printable(unicodedata.normalize("NFKC", name))  # as Python's own parser does
    name = name[:_NAME_FROM]
    if "operator " in name:  # C++ to another type, with its parentheses
        name = name.partition("(")[0]
    elif language == "cpp" and "operator" not in name:
        while name != (name := _TEMPLATE_ARGUMENTS.sub("", name)):
            pass
    return plain_name(name)


def _first_row(node: Node, wrappers: Mapping[int, Node], above: Mapping[int, int]) -> int:
    while (wrapper := wrappers.get(node.id)) is not None:
        node = wrapper
    row = node.start_point.row
    while (first := above.get(row - 1)) is not None:
        row = first
    return row


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
