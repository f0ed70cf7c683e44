"""What fits into one request: counting documents against the limits, refusing, or choosing fairly.

Whoever gathers puts every document in; the answer comes at the end, so that a refusal can say how far over it is.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hintcell.catalog.model import FolderSize
from hintcell_worker.protocol import MAX_QUERY_BYTES, Document, Limits, Request, RequestError, utf8_length

# JSON writes a control character of one byte as `\u00xx`.
_LONGEST_ESCAPE: Final = 6

_FOLDERS_NAMED: Final = 3
# A folder with more of the text is no narrower than all.
_NEARLY_ALL: Final = 0.8


class OverLimitsError(Exception):
    """All documents together are over a limit."""


class _Entry(NamedTuple):
    document: Document
    place: int  # in the order of the catalog
    turn: int  # place among the documents of its file


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
    """Documents on their way into a catalog, in groups (one for each package) that have equal rights.

    Args:
        limits: of the request that the catalog is for.
        snapshot_id_bytes: length of the longest ASCII id that the catalog may have.
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
        """Add the next document of the last group; `turn` is its place among its file's documents, from 0."""
        place = self._all.documents
        self._all = self._all.plus(document)
        if self._fit or self._all.fits(self._limits):
            self._groups[-1].append(_Entry(document, place, turn))
        else:
            self._groups = [[]]  # only to be counted now, so as not to hold a whole disk's source in memory

    def raised(self) -> dict[str, int]:
        """What the limits that are too low for everything would have to be; empty if no worker takes so much."""
        needed = Limits(self._all.documents, self._all.text_bytes, self._all.request_bytes)
        try:
            needed.check()
        except RequestError:
            return {}
        names = ("max_documents", "max_text_bytes", "max_request_bytes")
        return {name: getattr(needed, name) for name in names if getattr(needed, name) > getattr(self._limits, name)}

    def chosen(self) -> list[Document]:
        """The documents for the catalog, in the order in which they were added.

        Raises:
            OverLimitsError: they are over a limit, and `fit` is off.
        """
        if self._all.fits(self._limits):
            return [entry.document for group in self._groups for entry in group]
        if not self._fit:
            raise OverLimitsError
        return self._fair_choice()

    def excess(self, what: str) -> str:
        """How far over which limits everything together is, in words; `what` the documents are."""
        limits = self._limits
        measures: Sequence[tuple[int, int, str]] = (
            (self._all.documents, limits.max_documents, what),
            (self._all.text_bytes, limits.max_text_bytes, "bytes of text"),
            (self._all.request_bytes, limits.max_request_bytes, "bytes as JSON"),
        )
        return " and ".join(
            f"{size:,} {unit} ({size - limit:,} over the limit of {limit:,})"
            for size, limit, unit in measures
            if size > limit
        )

    def _fair_choice(self) -> list[Document]:
        """Groups take turns, and within a group files take turns, until nothing more fits.

        A document that does not fit gives its turn away, so that one huge text does not end the choice.
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


class Folders:
    """How much each folder brings, for saying which to search instead of all."""

    def __init__(self) -> None:
        self._documents: Counter[str] = Counter()
        self._text_bytes: Counter[str] = Counter()

    def add(self, path: str, document: Document) -> None:
        """Count a document of the file `path` (relative, with `/`)."""
        folder = path.rpartition("/")[0]
        self._documents[folder] += 1
        self._text_bytes[folder] += utf8_length(document.text)

    def largest(self) -> list[FolderSize]:
        """Up to three folders with the most text.

        They are next to each other: as long as one of them holds nearly everything, they are looked for in that one.
        """
        found: list[FolderSize] = []
        above = ""
        while True:
            documents, sizes = Counter[str](), Counter[str]()
            for folder, count in self._documents.items():
                if f"{folder}/".startswith(above) and (part := folder[len(above) :].partition("/")[0]):
                    documents[above + part] += count
                    sizes[above + part] += self._text_bytes[folder]
            if not sizes:
                return found
            found = [FolderSize(folder, documents[folder], size) for folder, size in sizes.most_common(_FOLDERS_NAMED)]
            if found[0].text_bytes < _NEARLY_ALL * self._text_bytes.total():
                return found
            above = f"{found[0].path}/"
