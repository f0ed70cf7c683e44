"""What models read, the same in every framework: names and descriptions of tools, and results as lines.

Models are told ids, paths, lines, names, ranks and scores, and never a text.
"""

from typing import Final

from hintcell.catalog.identifiers import printable
from hintcell.searches import Hit, Results

SEARCH_CODE: Final = "search_code"
MORE_RESULTS: Final = "more_results"
CLOSE_SEARCH: Final = "close_search"

DESCRIPTIONS: Final = {
    SEARCH_CODE: (
        "Find functions, methods and sections of documents for a few words or a question, ranked by how well their"
        " words match (BM25). Use words that stand in the code: names, parts of names, words of comments and messages."
        "\n\n"
        "Returns places, best first: path, line and name, never any text; read a file at its line with your own tools."
        " A score of 0 means that no word of the query occurs there. The result has a session and, if there is more, a"
        f" next cursor: pass both to {MORE_RESULTS}. Every search looks at what may be read now."
    ),
    MORE_RESULTS: (
        "The next page of an earlier search: pass its session and the next cursor of any of its pages. The ranking is"
        " that of the moment of the search. When the search has ended, because permissions changed or it was not used"
        f" for long, the error says so: search again with {SEARCH_CODE}."
    ),
    CLOSE_SEARCH: (
        "End a search that you have read enough of; this frees its memory. Searches that are not closed end by"
        " themselves."
    ),
}

QUERY: Final = "Words to look for, or a question; at most 8,192 bytes."
GLOBS: Final = (
    "Search only files that match one of these .gitignore-style patterns, such as src/**/*.py; none searches all."
)
LIMIT: Final = "Hits in the page, at most."
SESSION: Final = f"The session of a result of {SEARCH_CODE}."
CURSOR: Final = "The next cursor of a page of that search."

DEFAULT_LIMIT: Final = 20
# A page costs the model about 20 tokens a hit.
MAX_LIMIT: Final = 100


def in_lines(results: Results) -> str:
    """A page as lines: how much there is, the hits, and how to read on."""
    hits = results.hits
    which = f"{hits[0].rank:,} to {hits[-1].rank:,} of {results.total:,}" if hits else f"none of {results.total:,}"
    lines = [f"Session {results.session}, hits {which}:", *map(hit_line, hits)]
    if results.next_cursor is not None:
        lines.append(f"Next cursor: {results.next_cursor}")
    if results.left_out:
        left_out = ", ".join(f"{reason}: {count:,}" for reason, count in results.left_out.items())
        lines.append(f"Not searched: {printable(left_out)}")
    return "\n".join(lines)


def hit_line(hit: Hit) -> str:
    """One hit, such as `3. src/config.py:12 Config.read (score 2.37)`; its id if it stands in no file."""
    place = f"{hit.path}:{hit.line} {hit.name}".rstrip() if hit.path else hit.id
    return f"{hit.rank}. {printable(place)} (score {hit.score:.2f})"


def closed(was_open: bool) -> str:
    """What closing a search has done."""
    return "The search is closed." if was_open else "There was no such search open."
