"""Snapshot ids tell apart whatever differs, and counts read as one phrase."""

from hypothesis import given
from hypothesis import strategies as st

from hintcell.catalog.model import Reason, in_words, snapshot_id
from hintcell_worker.protocol import Document

_short = st.text("1:ab", max_size=4)
_documents = st.lists(st.builds(Document, _short, _short), max_size=3)


@given(_documents, _documents)
def test_snapshot_ids_are_equal_for_equal_documents_in_equal_order_alone(
    ones: list[Document], others: list[Document]
) -> None:
    assert (snapshot_id("python", ones) == snapshot_id("python", others)) == (ones == others)


def test_no_boundary_between_ids_and_texts_can_move_unseen() -> None:
    catalogs = [
        [Document("ab", "c")],
        [Document("a", "bc")],
        [Document("a", "b"), Document("c", "")],
        [Document("a", "")],
        [Document("a", ""), Document("", "")],
        [],
    ]
    assert len({snapshot_id("python", documents) for documents in catalogs}) == len(catalogs)


def test_counts_are_one_phrase_in_the_order_of_the_reasons() -> None:
    assert in_words({Reason.OVER_LIMITS: 1234, Reason.TEST_FILES: 2, Reason.LINKS: 0}) == (
        "test files: 2, documents over the limits: 1,234"
    )
    assert in_words({}) == ""
