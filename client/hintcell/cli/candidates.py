"""A candidate as the command shows it: its id taken apart, and its line of JSON."""

import msgspec

from hintcell_worker.protocol import Candidate


class Row(msgspec.Struct, frozen=True):
    """One candidate of a catalog of functions; its fields are those of the JSON line, in their order.

    Attributes:
        candidate_id: `path:line:name`.
        inspection_rank: place in the ranking, from 1.
        bm25_score: the baseline's score.
        path: the file, as the catalog names it (relative to the folder, or from the package's name on).
        line: the line of the `def`, from 1.
        name: the function's name within its module.
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


def row_of(candidate: Candidate) -> Row:
    """The candidate with its id taken apart. A path may hold colons; a line and a name do not."""
    path, line, name = candidate.candidate_id.rsplit(":", 2)
    return Row(candidate.candidate_id, candidate.inspection_rank, candidate.bm25_score, path, int(line), name)


def json_line(row: Row) -> bytes:
    """The row as one line of JSON in UTF-8."""
    return msgspec.json.encode(row) + b"\n"
