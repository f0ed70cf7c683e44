"""What the frameworks' scripted models do: one call of a tool after another, from what the tools have said so far."""

from collections.abc import Callable
from typing import Any, Final

from hintcell.integrations.wording import CLOSE_SEARCH, MORE_RESULTS, SEARCH_CODE
from tests.client.searches import QUERY
from tests.integrations.reading import cursor_in, session_in

Step = tuple[str, Callable[[list[str]], dict[str, Any]]]
"""A tool to call, and with what, given what the tools have said."""

SEARCHING: Final[Step] = (SEARCH_CODE, lambda _: {"query": QUERY, "globs": [], "limit": 5})
READING: Final[Step] = (
    MORE_RESULTS,
    lambda said: {"session": session_in(said[0]), "cursor": cursor_in(said[-1]), "limit": 7},
)
CLOSING: Final[Step] = (CLOSE_SEARCH, lambda said: {"session": session_in(said[0])})

# The same page again, whatever was said since the search; and one that there is not.
READING_THE_SECOND_PAGE: Final[Step] = (
    MORE_RESULTS,
    lambda said: {"session": session_in(said[0]), "cursor": cursor_in(said[0]), "limit": 7},
)
MAKING_A_CURSOR_UP: Final[Step] = (
    MORE_RESULTS,
    lambda said: {"session": session_in(said[0]), "cursor": "made up", "limit": 7},
)


def stealing(lines: str) -> list[Step]:
    """To read on and to close the search that another run was told of."""
    return [(name, lambda _, arguments=arguments: arguments([lines])) for name, arguments in (READING, CLOSING)]
