"""Rows as a table that a person likes to read, in whatever width there is.

On a wide terminal, and in a pipe, a candidate is one line of columns; on a narrow one it is two lines, its name
above its place. A place is never broken, so that it can be copied: what is too long for its column moves the name on,
or down. Nothing is cut off.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.text import Text

from hintcell.cli.candidates import Row

NARROW: Final = 80

_GAP: Final = "  "
_HEADINGS: Final = ("rank", "score", "where", "name")
_PLACE_INDENT: Final = 4
# Less than this is no column any more; a terminal as narrow as that folds by itself.
_MIN_COLUMN: Final = 12


class Columns(NamedTuple):
    """Widths in terminal cells."""

    rank: int
    score: int
    where: int
    name: int

    @classmethod
    def for_rows(cls, rows: Sequence[Row], width: int) -> "Columns":
        """As wide as the rows need; if that is more than `width`, the two texts share what there is."""
        rank = max(len(_HEADINGS[0]), *(len(str(row.inspection_rank)) for row in rows))
        score = max(len(_HEADINGS[1]), *(len(_score(row)) for row in rows))
        where = max(cell_len(row.where) for row in rows)
        name = max(cell_len(row.name) for row in rows)
        left = width - rank - score - 3 * len(_GAP)
        if where + name > left:
            name = max(_MIN_COLUMN, min(name, left // 3), left - where)
            where = max(_MIN_COLUMN, left - name)
        return cls(rank, score, where, name)


def heading(columns: Columns) -> Text:
    """The line above the table."""
    rank, score, where, name = _HEADINGS
    line = f"{rank:>{columns.rank}}{_GAP}{score:>{columns.score}}{_GAP}{where:<{columns.where}}{_GAP}{name}"
    return Text(line, style="dim")


def wide(rows: Iterable[Row], columns: Columns, width: int) -> Iterator[Text]:
    """The lines of a table with columns, on a terminal of `width` cells."""
    for row in rows:
        line = _start(row, columns) + Text(_GAP + row.where)
        indent = columns.rank + columns.score + columns.where + 3 * len(_GAP)
        start = max(indent, line.cell_len + len(_GAP))
        if start > indent and start + cell_len(row.name) > width:
            yield line
            line, start = Text(), indent
        for name in fold(row.name, max(_MIN_COLUMN, width - start)):
            yield line + Text(" " * (start - line.cell_len)) + Text(name, style="bold")
            line = Text()


def narrow(rows: Iterable[Row], columns: Columns, width: int) -> Iterator[Text]:
    """The lines of a table for terminals of less than NARROW cells, which wrap the longest places by themselves."""
    for row in rows:
        start = _start(row, columns)
        start.append(_GAP)
        for name in fold(row.name, max(_MIN_COLUMN, width - start.cell_len)):
            yield start + Text(name, style="bold")
            start = Text(" " * start.cell_len)
        yield Text(" " * _PLACE_INDENT + row.where)


def fold(text: str, width: int) -> list[str]:
    """`text` in parts of at most `width` cells: broken between folders, else between parts of names, else anywhere."""
    parts: list[str] = []
    while cell_len(text) > width:
        part = chop_cells(text, width)[0]
        end = next((found + 1 for separator in "/._:" if (found := part.rfind(separator)) >= 0), len(part))
        parts.append(text[:end])
        text = text[end:]
    return [*parts, text]


def _start(row: Row, columns: Columns) -> Text:
    return Text.assemble(
        (f"{row.inspection_rank:>{columns.rank}}", "dim"), _GAP, (f"{_score(row):>{columns.score}}", "cyan")
    )


def _score(row: Row) -> str:
    return f"{row.bm25_score:.2f}"
