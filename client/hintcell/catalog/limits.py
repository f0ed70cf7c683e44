"""What fits into one request: counting documents against the limits, refusing, or choosing fairly.

Whoever gathers puts every document in; the answer comes at the end, so that a refusal can say how far over it is.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from hintcell_worker.protocol import MAX_QUERY_BYTES, Document, Limits, Request, RequestError, utf8_length
from hintcell_worker.words import split_identifiers

# JSON writes a control character of one byte as `\u00xx`.
_LONGEST_ESCAPE: Final = 6

# Of a limit to raise.
_DIGITS: Final = 2


class OverLimitsError(Exception):
    """All documents together are over a limit."""


def split_length(documents: Iterable[Document]) -> int:
    """UTF-8 bytes of all texts together once their identifiers are split, as the limit of text counts them then."""
    return sum(utf8_length(split_identifiers(document.text)) for document in documents)


def rounded_up(number: int) -> int:
    """A limit of at least `number` that is nice to type, and not too low again when a document is added."""
    step: int = 10 ** max(0, len(str(number)) - _DIGITS)
    return -(-number // step) * step


class _Entry(NamedTuple):
    document: Document
    place: int  # in the order of the catalog
    turn: int  # place among the documents of its file
    file: str


class Size(NamedTuple):
    """What documents take of each limit."""

    documents: int
    text_bytes: int
    request_bytes: int

    def plus(self, document: Document, *, split: bool) -> "Size":
        """With one document more; `split` is whether its text counts with identifiers split."""
        encoded = len(msgspec.json.encode(document)) + (self.documents > 0)  # a comma between two
        text_bytes = split_length([document]) if split else utf8_length(document.text)
        return Size(self.documents + 1, self.text_bytes + text_bytes, self.request_bytes + encoded)

    def fits(self, limits: Limits) -> bool:
        """Whether it is within every limit."""
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
        split: whether a choice leaves room for identifiers to be split.
    """

    def __init__(self, limits: Limits, snapshot_id_bytes: int, *, fit: bool, split: bool = False) -> None:
        self._limits = limits
        self._fit = fit
        self._split = fit and split
        self._sizes: dict[str, Size] = {}
        self._groups: list[list[_Entry]] = []
        # A catalog serves any query, so there must be room for the longest, and for the line's end.
        request = Request("x" * snapshot_id_bytes, "", [])
        self._empty = Size(0, 0, len(msgspec.json.encode(request)) + _LONGEST_ESCAPE * MAX_QUERY_BYTES + 1)
        self._all = self._empty

    def start_group(self) -> None:
        """What is added from now on belongs to one more group."""
        self._groups.append([])

    def add(self, document: Document, turn: int, file: str) -> None:
        """Add the next document of the last group; `turn` is its place among the documents of `file`, from 0."""
        entry = _Entry(document, self._all.documents, turn, file)
        self._all = self._all.plus(document, split=self._split)
        if self._fit or self._all.fits(self._limits):
            self._groups[-1].append(entry)
            return
        # Only to be counted now, so as not to hold a whole disk's source in memory.
        for counted in (*(each for group in self._groups for each in group), entry):
            self._sizes[counted.file] = self._sizes.get(counted.file, Size(0, 0, 0)).plus(counted.document, split=True)
        self._groups = [[]]

    def together(self, sizes: Iterable[Size]) -> Size:
        """What a request takes that holds documents of these sizes."""
        total = self._empty
        for size in sizes:
            total = Size(*(one + other for one, other in zip(total, size, strict=True)))
        # A comma between those of two files.
        return total._replace(request_bytes=total.request_bytes + total.documents)

    def fits(self, sizes: Iterable[Size]) -> bool:
        """Whether documents of these sizes are within the limits together."""
        return self.together(sizes).fits(self._limits)

    @property
    def sizes(self) -> dict[str, Size]:
        """What the documents of each file take, with room for identifiers to be split; known after a refusal."""
        return self._sizes

    def raised(self) -> dict[str, int]:
        """Limits to raise to search everything, also with identifiers split; empty if no worker takes so much."""
        needed = self.together(self._sizes.values())
        names = ("max_documents", "max_text_bytes", "max_request_bytes")
        for values in (map(rounded_up, needed), needed):
            raised = Limits(*values)
            try:
                raised.check()
            except RequestError:
                continue
            return {
                name: getattr(raised, name)
                for name, size in zip(names, needed, strict=True)
                if size > getattr(self._limits, name)
            }
        return {}

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
            if (larger := size.plus(entry.document, split=self._split)).fits(self._limits):
                size = larger
                taken.append(entry)
        taken.sort(key=lambda entry: entry.place)
        return [entry.document for entry in taken]
