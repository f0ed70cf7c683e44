"""What `hintcell search` prints of a session's pages: a table for people, or JSON lines for programs."""

import sys
from typing import Final, Protocol

import click
from rich.console import Console
from rich.text import Text

from hintcell.catalog import Catalog, Reason
from hintcell.catalog.limits import rounded_up, split_length
from hintcell.cli import table
from hintcell.cli.candidates import Row, json_line, row_of
from hintcell.cli.figures import counted
from hintcell.cli.output import writing
from hintcell.conversation import Page
from hintcell.session import Session
from hintcell_worker.protocol import (
    MAX_PAGE_LIMIT,
    MAX_QUERY_BYTES,
    POLICY_IDENTIFIERS,
    POLICY_IDENTIFIERS_OUT_OF_SCOPE,
    Limits,
)

_NO_MATCH: Final = "Nothing here has a word of the query. Words match whole and in any case: try others"
_NO_MATCH_YET: Final = ", or --identifier-hints, which also looks at parts of names such as readConfig"
_PARTS_ONLY: Final = (
    "Nothing here has a whole word of the query (every score is 0): the order is by parts of names, if any match."
)
# Where there was nothing to take.
_NO_LOSS: Final = frozenset({Reason.EMPTY_FILES, Reason.FILES_WITHOUT_FUNCTIONS})
_NO_OTHERS: Final = "Nothing else has a word of the query."
_NOT_SPLIT: Final = "this is the order without --identifier-hints"


class Report(Protocol):
    """Prints pages as they come."""

    def add(self, page: Page, catalog: Catalog) -> bool:
        """Print a page; whether a further one would be printed as well."""
        ...

    def end(self, session: Session, catalog: Catalog) -> None:
        """Print what is to be said after the last page."""
        ...


def why_not_split(catalog: Catalog, limits: Limits) -> str:
    """Why a ranking that was to split names does not, and what to do."""
    needed = split_length(catalog.documents)
    if needed > limits.max_text_bytes:
        return (
            f"With names split into parts, the texts have {needed:,} bytes, {needed - limits.max_text_bytes:,} over "
            f"the limit of {limits.max_text_bytes:,}: {_NOT_SPLIT}; add --max-text-bytes {rounded_up(needed)}, or --fit"
        )
    return f"The query has no word, or over {MAX_QUERY_BYTES:,} bytes once its names are split: {_NOT_SPLIT}"


class JsonReport:
    """One JSON object a candidate, all of them, and nothing else on standard output."""

    def __init__(self, limits: Limits) -> None:
        """Print what is searched within `limits`."""
        self._limits = limits
        self._out = sys.stdout.buffer
        self._matched = False
        self._policy = ""

    def add(self, page: Page, catalog: Catalog) -> bool:
        """Print a page; a further one would be printed as well."""
        self._policy = page.policy
        self._matched = self._matched or page.policy == POLICY_IDENTIFIERS or page.candidates[0].bm25_score > 0
        with writing():
            self._out.write(b"".join(json_line(row_of(candidate, catalog.locations)) for candidate in page.candidates))
            self._out.flush()
        return True

    def end(self, session: Session, catalog: Catalog) -> None:
        """Tell a person on standard error that nothing matched, or that names were not split."""
        del session
        if self._policy == POLICY_IDENTIFIERS_OUT_OF_SCOPE:
            click.echo(f"hintcell: {why_not_split(catalog, self._limits)}.", err=True)
        if not self._matched:
            click.echo(f"hintcell: {_no_match(self._policy)}", err=True)


class TableReport:
    """A table, and below it how much there is and how to get more."""

    def __init__(self, out: Console, *, limit: int, limits: Limits) -> None:
        """Print on `out` what is searched within `limits`; `limit` is that of a page."""
        self._limit = limit
        self._limits = limits
        self._console = out
        self._columns: table.Columns | None = None
        self._last: Page | None = None
        self._shown = 0
        self._all_matches_shown = False
        self._best_score = 0.0

    def add(self, page: Page, catalog: Catalog) -> bool:
        """Print a page; whether a further one can have results that match."""
        rows = [row_of(candidate, catalog.locations) for candidate in page.candidates]
        if page.policy != POLICY_IDENTIFIERS:
            # The order is by score, and a score of 0 says that no word matches. (With parts of names interleaved, a
            # match may score 0, because scores are always the baseline's.)
            matching = [row for row in rows if row.bm25_score > 0]
            self._all_matches_shown = len(matching) < len(rows)
            rows = matching
        self._last = page
        if rows:
            self._best_score = max(self._best_score, *(row.bm25_score for row in rows))
            self._print_rows(rows)
        return not self._all_matches_shown

    def end(self, session: Session, catalog: Catalog) -> None:
        """Print how many of how many were shown, by which policy and process, and how to get more."""
        page = self._last
        if page is None:
            return
        lines = self._remarks(page, catalog)
        shown = f"1-{self._shown:,}" if self._shown else "0"
        lines.append(f"{shown} of {counted(page.total, 'result')}; policy {page.policy}")
        lines.append(f"Session {session.id}, pid {session.pid}")
        left_out = {reason: count for reason, count in catalog.left_out.items() if reason not in _NO_LOSS}
        if left_out:
            lines.append("Left out: " + ", ".join(f"{reason}: {count:,}" for reason, count in left_out.items()))
        if page.next_cursor is not None and not self._all_matches_shown:
            longer = min(2 * self._limit, page.total, MAX_PAGE_LIMIT)
            lines.append(f"More: {f'--limit {longer}, or ' if longer > self._limit else ''}--all-pages")
        with writing():
            if self._shown:
                self._console.print()
            for line in lines:
                self._console.print(Text(line, style="dim"))
            self._console.file.flush()

    def _print_rows(self, rows: list[Row]) -> None:
        width = self._console.width
        is_narrow = width < table.NARROW
        with writing():
            if self._columns is None:
                self._columns = table.Columns.for_rows(rows, width)
                if not is_narrow:
                    self._console.print(table.heading(self._columns))
            columns = self._columns
            for line in table.narrow(rows, columns, width) if is_narrow else table.wide(rows, columns, width):
                self._console.print(line, soft_wrap=True)
        self._shown += len(rows)

    def _remarks(self, page: Page, catalog: Catalog) -> list[str]:
        remarks: list[str] = []
        if page.policy == POLICY_IDENTIFIERS_OUT_OF_SCOPE:
            remarks.append(f"{why_not_split(catalog, self._limits)}.")
        if page.policy == POLICY_IDENTIFIERS:
            if self._best_score == 0:
                remarks.append(_PARTS_ONLY)
        elif not self._shown:
            remarks.append(_no_match(page.policy))
        elif self._all_matches_shown:
            remarks.append(_NO_OTHERS)
        return remarks


def _no_match(policy: str) -> str:
    return f"{_NO_MATCH}{'' if policy == POLICY_IDENTIFIERS_OUT_OF_SCOPE else _NO_MATCH_YET}."
