"""What the figures of sessions rest on."""

from bench.memory import read_rollup
from bench.sessions import DocumentsAfter, MemoryBytes, memory_of_the_session
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
    # What the figure "admitted, no request yet" rests on.
    looks: list[MemoryBytes] = []
    with Client() as client:
        documents = [Document("a", "one " * 100_000)]
        delayed = DocumentsAfter(documents, lambda: looks.append(memory_of_the_session(client)))
        with client.open(client.grant("bench"), snapshot_id="s", query="one", documents=delayed) as session:
            assert session.page().total == 1
            looks.append(memory_of_the_session(client))
    assert looks[0].peak_rss < looks[1].peak_rss


def test_uss_is_what_is_private_clean_or_not() -> None:
    text = b"55-56 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss: 5 kB\nPrivate_Clean: 1 kB\nPrivate_Dirty: 2 kB\n"
    assert read_rollup(text, 0.5) == (0.5, 9 * 1024, 5 * 1024, 3 * 1024)
    assert read_rollup(b"", 0.5) is None
