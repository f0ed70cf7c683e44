"""The functions of one Python source file.

A function or method is taken when its `def` is at module or class level, also below `if`, `try` or `with` there;
what is nested in a function belongs to that function's text. Nothing is executed or imported.
"""

import ast
import io
import re
import threading
import tokenize
import warnings
from typing import Final, NamedTuple

LANGUAGE: Final = "python"
SUFFIX: Final = ".py"

# The parser warns about a file's code through the `warnings` module, whose filters belong to the whole process. They
# are silenced for one file at a time; without the lock, two builds at once could restore each other's filters and
# leave warnings off for good. Warnings that *other* threads give in those milliseconds are lost: Python 3.11 to 3.13
# have no filters for one thread alone.
_FILTERS = threading.Lock()

# A declared encoding, as PEP 263 has it.
_DECLARATION = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+", re.MULTILINE)

# Statements that hold others at the same level.
_BLOCKS: Final = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match),
    *(ast.ExceptHandler, ast.match_case),
)


class Function(NamedTuple):
    """One function: the `line` of its `def` (from 1), its name within the module, and its source lines."""

    line: int
    name: str
    text: str


class InvalidSourceError(Exception):
    """The bytes are not source that this interpreter can parse."""


def functions_of(source: bytes) -> list[Function]:
    """The functions of a file with these bytes, by line.

    A text runs from the first decorator's line to the last line, as in the file, without the last line's break. Bytes
    that do not fit the file's encoding (UTF-8, if it declares none) become U+FFFD.

    Raises:
        InvalidSourceError: the source cannot be decoded or parsed.
    """
    try:
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = _decode(source)
            tree = ast.parse(text)
        # Only bytes split where the parser does: str.splitlines() also breaks at form feeds and others.
        lines = text.encode().splitlines(keepends=True)
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        # Null bytes and stray surrogates are ValueErrors; deep nesting is a RecursionError or a MemoryError.
        raise InvalidSourceError(f"the source cannot be parsed: {type(error).__name__}") from error
    functions = [
        Function(
            node.lineno, name, b"".join(lines[_first_line(node, lines) - 1 : node.end_lineno]).decode().rstrip("\r\n")
        )
        for node, name in _definitions(tree)
    ]
    functions.sort()
    return functions


def _decode(source: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    except SyntaxError:
        # Either the declared encoding is unknown, or none is declared and the first lines are not UTF-8.
        if _DECLARATION.search(b"\n".join(source.split(b"\n", 2)[:2])):
            raise
        encoding = "utf-8-sig"
    return source.decode(encoding, "replace")


def _definitions(tree: ast.Module) -> list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """The definitions with their qualified names, in no particular order."""
    found: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]] = []
    blocks: list[tuple[ast.AST, str]] = [(tree, "")]
    while blocks:
        block, qualifier = blocks.pop()
        for node in ast.iter_child_nodes(block):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((node, qualifier + node.name))
            elif isinstance(node, ast.ClassDef):
                blocks.append((node, f"{qualifier}{node.name}."))
            elif isinstance(node, _BLOCKS):
                blocks.append((node, qualifier))
    return found


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[bytes]) -> int:
    """The line of the first decorator's `@`, or of `def` (from 1)."""
    if not node.decorator_list:
        return node.lineno
    # The tree has the line where the decorator's expression starts. A parenthesis, comments or a line continuation may
    # stand between it and its `@`, but no other line that starts with one.
    line = node.decorator_list[0].lineno
    while line > 1 and not lines[line - 1].lstrip().startswith(b"@"):
        line -= 1
    return line
