"""A candidate as the command shows it: its id taken apart, and its line of JSON."""

from collections.abc import Mapping

import msgspec

from hintcell.catalog import Location
from hintcell_worker.protocol import Candidate


class Row(msgspec.Struct, frozen=True):
    """One candidate of a catalog; its fields are those of the JSON line, in their order.

    Attributes:
        candidate_id: `path:line:name`, of which the path may be cut.
        inspection_rank: place in the ranking, from 1.
        bm25_score: the baseline's score.
        path: the file, whole, as the catalog names it (relative to the folder, or from the package's name on).
        line: the line of the function's name or of the heading, from 1.
        name: the function's name within its file, or the heading.
    """

    candidate_id: str
    inspection_rank: int
    bm25_score: float
    path: str
    line: int
    name: str

    @property
    def where(self) -> str:
        """`path:line`, which editors and terminals know to open."""
        return f"{self.path}:{self.line}"


def row_of(candidate: Candidate, locations: Mapping[str, Location]) -> Row:
    """The candidate, with where its document is from."""
    place = locations[candidate.candidate_id]
    return Row(
        candidate.candidate_id,
        candidate.inspection_rank,
        candidate.bm25_score,
        place.path,
        place.line,
        place.name,
    )


def json_line(row: Row) -> bytes:
    """The row as one line of JSON in UTF-8."""
    return msgspec.json.encode(row) + b"\n"
