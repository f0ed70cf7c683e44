"""The peers as indexes that can be asked more than once: for their first places, or for the rank of every document."""

import re
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

_K1: Final = 1.2
_B: Final = 0.75
_WORD: Final = re.compile(r"\w+")


class Ranker(Protocol):
    """An index over texts."""

    def first(self, query: str, number: int) -> list[int]:
        """Places of at most so many texts, best first; those that do not match may be missing."""
        ...


def words(text: str) -> list[str]:
    """The plainest tokenizer there is, for peers that bring none, and for queries without operators."""
    return _WORD.findall(text.lower())


class Fts5:
    """SQLite FTS5 in memory, with its default tokenizer."""

    def __init__(self, texts: Sequence[str], *, columns: str = "text") -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(f"CREATE VIRTUAL TABLE documents USING fts5({columns})")
        with self._connection:
            self._connection.executemany("INSERT INTO documents (rowid, text) VALUES (?, ?)", enumerate(texts))

    def first(self, query: str, number: int) -> list[int]:
        any_word = " OR ".join(f'"{word}"' for word in words(query))
        found = self._connection.execute(
            "SELECT rowid FROM documents WHERE documents MATCH ? ORDER BY rank LIMIT ?", (any_word, number)
        )
        return [place for (place,) in found]


class Tantivy:
    """tantivy in memory, with its default tokenizer."""

    def __init__(self, texts: Sequence[str]) -> None:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("place", stored=True, indexed=False)
        builder.add_text_field("text", stored=False)
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer()
        for place, text in enumerate(texts):
            document = tantivy.Document()
            document.add_integer("place", place)
            document.add_text("text", text)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def first(self, query: str, number: int) -> list[int]:
        # Of words alone, so that no character of the query is taken for an operator.
        asked = self._index.parse_query(" ".join(words(query)), ["text"])
        hits = self._searcher.search(asked, number).hits
        return [self._searcher.doc(address)["place"][0] for _, address in hits]


class Bm25s:
    """bm25s with its own tokenizer and no stop words."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        self._library = bm25s
        self._retriever = bm25s.BM25()
        self._retriever.index(bm25s.tokenize(list(texts), stopwords=None, show_progress=False), show_progress=False)

    def first(self, query: str, number: int) -> list[int]:
        asked = self._library.tokenize([query], stopwords=None, return_ids=False, show_progress=False)
        return _best(self._retriever.get_scores(asked[0]), number)


class RankBM25:
    """rank_bm25's Okapi."""

    def __init__(self, texts: Sequence[str]) -> None:
        from rank_bm25 import BM25Okapi

        self._index = BM25Okapi([words(text) for text in texts])

    def first(self, query: str, number: int) -> list[int]:
        return _best(self._index.get_scores(words(query)), number)


class Counted:
    """All words counted by CountVectorizer with its own tokenizer, and the formula of hintcell's BM25."""

    def __init__(self, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import CountVectorizer

        self._vectorizer: Any = CountVectorizer()
        self._terms: Any = self._vectorizer.fit_transform(texts).tocsc()
        lengths = np.asarray(self._terms.sum(axis=1), dtype=np.float64).ravel()
        self._norm = _K1 * (1 - _B + _B * lengths / lengths.mean())
        self._analyzer = self._vectorizer.build_analyzer()

    def first(self, query: str, number: int) -> list[int]:
        total = np.zeros(len(self._norm))
        for word in set(self._analyzer(query)):
            column = self._vectorizer.vocabulary_.get(word)
            if column is None:
                continue
            start, end = self._terms.indptr[column], self._terms.indptr[column + 1]
            rows, tf = self._terms.indices[start:end], self._terms.data[start:end]
            idf = np.log(1 + (len(total) - len(rows) + 0.5) / (len(rows) + 0.5))
            total[rows] += idf * tf * (_K1 + 1) / (tf + self._norm[rows])
        return _best(total, number)


def _best(scores: npt.NDArray[np.float64], number: int) -> list[int]:
    """Places of the highest scores; equal scores keep the texts' order."""
    order: list[int] = np.argsort(-scores, kind="stable")[:number].tolist()
    return order
