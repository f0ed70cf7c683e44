"""The programming languages whose functions are found, each with its grammar and its query.

A further language is one more entry in `_GRAMMARS` and in `_SUFFIXES`, and a file in `queries`. A grammar is loaded
when the first file of its language is met. Does not cover what a query's captures mean (`source`).
"""

import importlib
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tree_sitter import Language, Query

PYTHON: Final = "python"

_QUERIES: Final = Path(__file__).parent / "queries"


class _Grammar(NamedTuple):
    module: str
    function: str = "language"
    queries: tuple[str, ...] = ()  # if not the one of its own name


_GRAMMARS: Final = {
    PYTHON: _Grammar("tree_sitter_python"),
    "go": _Grammar("tree_sitter_go"),
    "javascript": _Grammar("tree_sitter_javascript", queries=("ecmascript", "javascript")),
    "typescript": _Grammar("tree_sitter_typescript", "language_typescript", ("ecmascript", "typescript")),
    "tsx": _Grammar("tree_sitter_typescript", "language_tsx", ("ecmascript", "typescript")),
    "java": _Grammar("tree_sitter_java"),
    "c": _Grammar("tree_sitter_c"),
    "cpp": _Grammar("tree_sitter_cpp"),
    "rust": _Grammar("tree_sitter_rust"),
    "c_sharp": _Grammar("tree_sitter_c_sharp"),
    "ruby": _Grammar("tree_sitter_ruby"),
    "php": _Grammar("tree_sitter_php", "language_php"),
}

LANGUAGES: Final = tuple(_GRAMMARS)

_SUFFIXES: Final = {
    suffix: language
    for language, suffixes in {
        PYTHON: "py pyi pyw",
        "go": "go",
        "javascript": "js mjs cjs jsx",
        "typescript": "ts mts cts",
        "tsx": "tsx",
        "java": "java",
        "c": "c h",
        "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp inl tcc",
        "rust": "rs",
        "c_sharp": "cs csx",
        "ruby": "rb rake gemspec",
        "php": "php phtml",
    }.items()
    for suffix in suffixes.split()
}
_NAMES: Final = {"Rakefile": "ruby", "Gemfile": "ruby", "Vagrantfile": "ruby"}

# A header may be of either language, and a parser of C makes nothing of a class.
_HEADER: Final = ".h"
_CPP: Final = re.compile(
    rb"^[ \t]*(?:class[ \t]+\w|namespace\b|template[ \t]*<|using[ \t]+\w)|^[ \t]*(?:public|private|protected)[ \t]*:",
    re.MULTILINE,
)


def suffixes_of(language: str) -> list[str]:
    """How files of a language end, each with its dot."""
    return [f".{suffix}" for suffix, other in _SUFFIXES.items() if other == language]


def language_of(name: str) -> str | None:
    """The language of a file, by its own name (without folders); None if it is not of one of `LANGUAGES`."""
    stem, _, suffix = name.rpartition(".")
    return _NAMES.get(name) or (_SUFFIXES.get(suffix.lower()) if stem else None)


def language_of_header(name: str, language: str, source: bytes) -> str:
    """`language`, or C++ if a header (by its own name) has what C does not."""
    return "cpp" if name.endswith(_HEADER) and _CPP.search(source) else language


@cache
def grammar(language: str) -> tuple[Language, Query]:
    """The grammar of one of `LANGUAGES` and the query that finds its functions."""
    entry = _GRAMMARS[language]
    pointer: object = getattr(importlib.import_module(entry.module), entry.function)()
    loaded = Language(pointer)
    queries = [(_QUERIES / f"{name}.scm").read_text(encoding="utf-8") for name in entry.queries or (language,)]
    return loaded, Query(loaded, "\n".join(queries))
