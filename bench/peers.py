"""First page: a whole session against what one would otherwise build inside the process, on the same texts.

A peer goes from texts in memory to the first 20 places: it builds its index and asks it once, because a session too is
for one query over one snapshot. A session is the whole of it as a client sees it: grant, fork, encoding and sending
the documents, checks, ranking, digest, first page, decoding. Each peer runs with its own tokenizer and defaults
except where its docstring says otherwise, in the measuring process, with everything imported.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bench import corpus, goals, rankers, timing
from bench.corpus import PAGE, QUERY
from bench.results import Part, Plot, Series, Table
from bench.sessions import POLICIES, first_page_s
from hintcell import Client

_ROUNDS: Final = 40
_BUDGET_S: Final = 100.0

FirstPlaces = Callable[[Sequence[str], str], list[int]]


def fts5(texts: Sequence[str], query: str) -> list[int]:
    """SQLite FTS5 in memory, as its documentation begins; any of the query's words matches."""
    return rankers.Fts5(texts).first(query, PAGE)


def fts5_contentless(texts: Sequence[str], query: str) -> list[int]:
    """The same without keeping a copy of the texts."""
    return rankers.Fts5(texts, columns="text, content=''").first(query, PAGE)


def tantivy(texts: Sequence[str], query: str) -> list[int]:
    """Tantivy in memory, texts not stored, with as many writing threads as it likes."""
    return rankers.Tantivy(texts).first(query, PAGE)


def bm25s(texts: Sequence[str], query: str) -> list[int]:
    """bm25s with its own tokenizer, no stop words, NumPy backend."""
    import bm25s as library

    tokens = library.tokenize(list(texts), stopwords=None, show_progress=False)
    retriever = library.BM25()
    retriever.index(tokens, show_progress=False)
    asked = library.tokenize([query], stopwords=None, show_progress=False)
    found, _ = retriever.retrieve(asked, k=min(PAGE, len(texts)), show_progress=False)
    return [int(place) for place in found[0]]


def rank_bm25(texts: Sequence[str], query: str) -> list[int]:
    """rank_bm25's Okapi, which brings no tokenizer: lower-cased runs of word characters."""
    return rankers.RankBM25(texts).first(query, PAGE)


def count_vectorizer(texts: Sequence[str], query: str) -> list[int]:
    """scikit-learn's CountVectorizer with its own tokenizer, all words counted, and BM25 in NumPy."""
    return rankers.Counted(texts).first(query, PAGE)


PEERS: Final[dict[str, FirstPlaces]] = {
    "SQLite FTS5": fts5,
    "SQLite FTS5, contentless": fts5_contentless,
    "tantivy": tantivy,
    "bm25s": bm25s,
    "rank_bm25": rank_bm25,
    "CountVectorizer": count_vectorizer,
}


def measure(effort: float = 1.0) -> Part:
    searched = corpus.corpus()
    texts = searched.texts
    with Client() as client:
        contenders: dict[str, Callable[[], float]] = {
            f"hintcell, {name}": partial(first_page_s, client, searched, hints=hints)
            for name, hints in POLICIES.items()
        }
        for name, peer in PEERS.items():
            contenders[name] = partial(_peer_s, peer, texts)
        for contender in contenders.values():  # Imports, and what else happens once.
            contender()
        times = timing.alternating(contenders, timing.rounds(_ROUNDS, effort), budget_s=_BUDGET_S)
    figures = [goals.figure(f"peers: {name}", timing.spread(took).times(1_000), "ms") for name, took in times.items()]
    figures += [
        goals.figure(
            f"peers: first page, {policy}, against {name}",
            timing.ratio(times[f"hintcell, {policy}"], times[name]),
            "×",
        )
        for policy in POLICIES
        for name in PEERS
    ]
    return Part(
        "peers",
        f"{len(texts):,} functions with {searched.text_bytes:,} bytes, the query “{QUERY}”: from texts in memory to "
        "the first 20 of them. A session is a process of its own, from asking for a grant to the decoded first page; "
        "every other contender is a library inside the measuring process. They take turns, and nothing else runs.",
        figures,
        tables=[
            Table("What each contender is", ["", ""], [[name, peer.__doc__ or ""] for name, peer in PEERS.items()])
        ],
        plots=[
            Plot(
                "Time to the first page",
                "milliseconds",
                "share of the rounds",
                [Series(name, *_in_ms(took)) for name, took in times.items()],
                x_log=True,
                note="Further left is faster; a steep line is steady.",
            )
        ],
    )


def _peer_s(peer: FirstPlaces, texts: Sequence[str]) -> float:
    took_s, found = timing.timed(lambda: peer(texts, QUERY))
    if len(found) != PAGE:
        raise RuntimeError(f"{peer.__name__} found {len(found)} of {PAGE} places")
    return took_s


def _in_ms(took: Sequence[float]) -> tuple[list[float], list[float]]:
    return timing.distribution([seconds * 1_000 for seconds in took])
