"""The corpus has to be the same in every run, and exactly as large as it says."""

import pytest

from bench import corpus
from bench.corpus import FUNCTIONS, TEXT_BYTES, NotEnoughError, choose, of_documents
from bench.scale import large_catalog
from hintcell import Document
from hintcell_worker.protocol import Limits, utf8_length


def _functions(*sizes: int) -> list[Document]:
    return [Document(f"d{place}", "x" * size) for place, size in enumerate(sizes)]


def test_the_corpus_is_exact_and_the_same_again() -> None:
    once, again = corpus.corpus(), corpus.corpus()
    assert len(once.documents) == FUNCTIONS
    assert len({document.id for document in once.documents}) == FUNCTIONS
    # It fills its room: a corpus of tiny functions would be another benchmark.
    assert TEXT_BYTES * 0.9 < once.text_bytes <= TEXT_BYTES < Limits().max_text_bytes
    assert once.text_bytes == sum(utf8_length(text) for text in once.texts)
    assert once == again


def test_all_packages_are_in_it() -> None:
    packages = {document.id.partition("/")[0] for document in corpus.corpus().documents}
    assert packages == set(corpus.PACKAGES)


def test_what_is_kept_is_what_is_read() -> None:
    assert corpus.all_functions() == corpus.all_functions()


def test_a_choice_is_evenly_spaced_among_the_functions_up_to_the_largest_size_that_fits() -> None:
    functions = _functions(9, 1, 2, 9, 3, 4, 9)
    assert [len(document.text) for document in choose(functions, 2, 4)] == [1, 3]
    assert [len(document.text) for document in choose(functions, 7, 37)] == [9, 1, 2, 9, 3, 4, 9]


def test_a_choice_keeps_to_its_bytes_whatever_their_characters() -> None:
    functions = [Document("a", "ü"), Document("b", "x"), Document("c", "y")]
    assert [document.id for document in choose(functions, 2, 2)] == ["b", "c"]


@pytest.mark.parametrize(("number", "text_bytes"), [(4, 100), (3, 5), (0, 5)])
def test_too_few_functions_are_refused_and_not_padded(number: int, text_bytes: int) -> None:
    with pytest.raises(NotEnoughError):
        choose(_functions(1, 2, 3), number, text_bytes)


def test_the_digest_depends_on_the_texts() -> None:
    one, other = of_documents(_functions(1, 2)), of_documents(_functions(1, 3))
    assert one.snapshot_id != other.snapshot_id
    assert (one.text_bytes, other.text_bytes) == (3, 4)


def test_large_catalogs_hold_as_many_documents_as_asked_for_with_bytes_in_proportion() -> None:
    functions = corpus.all_functions()
    small, large = large_catalog(functions, 2_048), large_catalog(functions, 20_000)
    assert (len(small), len(large)) == (2_048, 20_000)
    assert len({document.id for document in large}) == 20_000
    averages = [of_documents(documents).text_bytes / len(documents) for documents in (small, large)]
    assert averages[0] == pytest.approx(averages[1], rel=0.05)
