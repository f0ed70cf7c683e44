"""What fits into one request: counting functions against the limits, refusing, or choosing fairly.

Whoever gathers puts every function in; the answer comes at the end, so that a refusal can say how far over it is.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hintcell.catalog.model import CatalogError
from hintcell_worker.protocol import MAX_QUERY_BYTES, Document, Limits, Request, utf8_length

# JSON writes a control character of one byte as `\u00xx`.
_LONGEST_ESCAPE: Final = 6


class _Entry(NamedTuple):
    document: Document
    place: int  # in the order of the catalog
    turn: int  # place among the functions of its file


class _Size(NamedTuple):
    documents: int
    text_bytes: int
    request_bytes: int

    def plus(self, document: Document) -> "_Size":
        encoded = len(msgspec.json.encode(document)) + (self.documents > 0)  # a comma between two
        return _Size(self.documents + 1, self.text_bytes + utf8_length(document.text), self.request_bytes + encoded)

    def fits(self, limits: Limits) -> bool:
        return (
            self.documents <= limits.max_documents
            and self.text_bytes <= limits.max_text_bytes
            and self.request_bytes <= limits.max_request_bytes
        )


class Gathering:
    """Functions on their way into a catalog, in groups (one for each package) that have equal rights.

    Args:
        limits: of the request that the catalog is for.
        snapshot_id_bytes: length of the ASCII id that the catalog will have.
        fit: whether to choose as many as fit rather than to refuse when all together do not.
    """

    def __init__(self, limits: Limits, snapshot_id_bytes: int, *, fit: bool) -> None:
        self._limits = limits
        self._fit = fit
        self._groups: list[list[_Entry]] = []
        # A catalog serves any query, so there must be room for the longest, and for the line's end.
        request = Request("x" * snapshot_id_bytes, "", [])
        self._empty = _Size(0, 0, len(msgspec.json.encode(request)) + _LONGEST_ESCAPE * MAX_QUERY_BYTES + 1)
        self._all = self._empty

    def start_group(self) -> None:
        """What is added from now on belongs to one more group."""
        self._groups.append([])

    def add(self, document: Document, turn: int) -> None:
        """Add the next function of the last group; `turn` is its place among its file's functions, from 0."""
        place = self._all.documents
        self._all = self._all.plus(document)
        if self._fit or self._all.fits(self._limits):
            self._groups[-1].append(_Entry(document, place, turn))
        else:
            self._groups = [[]]  # only to be counted now, so as not to hold a whole disk's source in memory

    def chosen(self, advice: str) -> list[Document]:
        """The documents for the catalog, in the order in which they were added.

        Args:
            advice: what the caller can do about too many functions.

        Raises:
            CatalogError: they are over a limit, and `fit` is off.
        """
        if self._all.fits(self._limits):
            return [entry.document for group in self._groups for entry in group]
        if not self._fit:
            raise CatalogError(f"too much for one snapshot: {self._excess()}; {advice}, or take only what fits")
        return self._fair_choice()

    def _fair_choice(self) -> list[Document]:
        """Groups take turns, and within a group files take turns, until nothing more fits.

        A function that does not fit gives its turn away, so that one huge text does not end the choice.
        """
        in_turn = [
            (rank, entry)
            for group in self._groups
            for rank, entry in enumerate(sorted(group, key=lambda entry: (entry.turn, entry.place)))
        ]
        in_turn.sort(key=lambda ranked: (ranked[0], ranked[1].place))
        taken: list[_Entry] = []
        size = self._empty
        for _, entry in in_turn:
            if size.documents == self._limits.max_documents:
                break
            if (larger := size.plus(entry.document)).fits(self._limits):
                size = larger
                taken.append(entry)
        taken.sort(key=lambda entry: entry.place)
        return [entry.document for entry in taken]

    def _excess(self) -> str:
        limits = self._limits
        measures: Sequence[tuple[int, int, str]] = (
            (self._all.documents, limits.max_documents, "functions"),
            (self._all.text_bytes, limits.max_text_bytes, "bytes of text"),
            (self._all.request_bytes, limits.max_request_bytes, "bytes as JSON"),
        )
        return " and ".join(
            f"{size:,} {what} ({size - limit:,} over the limit of {limit:,})"
            for size, limit, what in measures
            if size > limit
        )
