from bench.baseline import DocumentsAfter, MemoryBytes, memory_of_the_session
from hintcell import Client, Document


def test_documents_are_read_after_something_else_and_are_the_same() -> None:
    done: list[str] = []
    documents = [Document("a", "one"), Document("b", "two")]
    delayed = DocumentsAfter(documents, lambda: done.append("first"))
    assert (len(delayed), delayed[1], delayed[:1]) == (2, documents[1], documents[:1])
    assert done == []
    assert list(delayed) == documents
    assert done == ["first"]


def test_while_open_reads_the_documents_its_worker_starts_and_has_nothing_yet() -> None:
    # What the figure "before the first page" rests on.
    looks: list[MemoryBytes] = []
    with Client() as client:
        documents = DocumentsAfter(
            [Document("a", "one " * 100_000)], lambda: looks.append(memory_of_the_session(client))
        )
        with client.open(client.grant("bench"), snapshot_id="s", query="one", documents=documents) as session:
            assert session.page().total == 1
            looks.append(memory_of_the_session(client))
    assert looks[0].peak_rss < looks[1].peak_rss
