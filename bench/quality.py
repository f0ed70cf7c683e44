"""Whether rankings find what was asked for: first sentences of docstrings, against the same functions without them.

A question's targets are the functions that it is the first sentence of, seldom more than one; what counts is the
first of them. hintcell's rankings are made by the worker's own modules in this process. All words of all questions
are counted at once, and each question takes its columns: the same scores to the last bit, as a test holds.

`python -m bench.quality --root DIR` asks about the Python functions below a folder instead, and prints the table.
"""

import argparse
import ast
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table as Printed

from bench import corpus, goals, rankers, timing
from bench.results import Figure, Part, Plot, Series, Table
from hintcell import Document
from hintcell.catalog import CatalogError, build_from_directory
from hintcell_worker import bm25, words
from hintcell_worker.interleave import interleave, interleave_baseline_first

_QUESTIONS: Final = 500
_BUDGET_S: Final = 60.0
# A sentence of fewer words asks for nothing in particular.
_MIN_WORDS: Final = 4
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")
# Of its table, in columns: a narrower terminal breaks the lines.
_TABLE_WIDTH: Final = 120
_BASELINE: Final = "plain BM25"

Ranks = dict[str, list[int]]


class NoQuestionsError(Exception):
    """There is nothing to ask; the message says why."""


class Question(NamedTuple):
    """A sentence, and where the functions are that it describes."""

    text: str
    targets: frozenset[int]


def measure(effort: float = 1.0) -> Part:
    return of_documents(corpus.corpus().documents, effort)


def of_documents(documents: Sequence[Document], effort: float = 1.0) -> Part:
    """What `measure` measures, on any functions.

    Raises:
        NoQuestionsError: none of them has a docstring that asks for anything.
    """
    texts, questions = ask(documents)
    if not questions:
        raise NoQuestionsError(
            f"none of the {len(texts):,} functions has a docstring whose first sentence has {_MIN_WORDS} words or more"
        )
    number = min(len(questions), timing.rounds(_QUESTIONS, effort))
    # Evenly spaced, so that all packages are asked about.
    chosen = [questions[turn * len(questions) // number] for turn in range(number)]
    ranks = ranks_of(texts, chosen)
    figures: list[Figure] = []
    rows: list[list[str]] = []
    for name, found in ranks.items():
        recall_1, recall_10, reciprocal, mean = summary(found)
        measures = {"Recall@1": (recall_1 * 100, "%"), "Recall@10": (recall_10 * 100, "%"), "MRR": (reciprocal, "")}
        for measure_name, (value, unit) in (measures | {"mean rank": (mean, "")}).items():
            of_all = timing.Spread(value, None, None, len(found))
            figures.append(goals.figure(f"quality: {measure_name}, {name}", of_all, unit))
        better, worse, same = compared(found, ranks[_BASELINE][: len(found)])
        rows.append(
            [
                *(name, f"{len(found):,}", f"{recall_1:.1%}", f"{recall_10:.1%}", f"{reciprocal:.3f}", f"{mean:.1f}"),
                *(f"{better:,}", f"{worse:,}", f"{same:,}"),
            ]
        )
    places = list(range(1, 101))
    return Part(
        "quality",
        f"{len(chosen):,} questions of {len(questions):,}, each the first sentence of a docstring, to {len(texts):,} "
        "functions without their docstrings. Each ranking of hintcell has every function; one that a peer does not "
        "return counts as the last.",
        figures,
        tables=[
            Table(
                "Rankings",
                [
                    *("", "questions", "Recall@1", "Recall@10", "MRR", "mean rank"),
                    *("better than plain", "worse", "same"),
                ],
                rows,
                note="Auxiliary-first and baseline-first interleave plain BM25 with that of split words; the second is "
                "the policy of identifier hints. Peers have their own tokenizers, as in the part “peers”: an "
                "underscore parts two words for hintcell, FTS5 and tantivy, and not for the others.",
            )
        ],
        plots=[
            Plot(
                "Questions answered within the first places",
                "places looked at",
                "share of the questions",
                [
                    Series(name, places, [sum(rank <= place for rank in found) / len(found) for place in places])
                    for name, found in ranks.items()
                ],
                x_log=True,
            )
        ],
    )


def ask(documents: Sequence[Document]) -> tuple[list[str], list[Question]]:
    """All texts without their docstrings, and the questions that these make, in the order of their first targets."""
    texts: list[str] = []
    targets: dict[str, set[int]] = {}
    for place, document in enumerate(documents):
        stripped, docstring = without_docstring(document.text)
        texts.append(stripped)
        sentence = first_sentence(docstring)
        if len(words.words(sentence)) >= _MIN_WORDS:
            targets.setdefault(sentence, set()).add(place)
    return texts, [Question(sentence, frozenset(found)) for sentence, found in targets.items()]


def without_docstring(text: str) -> tuple[str, str]:
    """A function's text without the literal that is its docstring, byte for byte, and the docstring as `ast` cleans it.

    A method's text starts with its indentation, which no module may: it is parsed as the body of a block.
    """
    block = "if 1:\n" if text[:1].isspace() else ""
    try:
        tree = ast.parse(block + text)
    except SyntaxError:  # A decorator's continuation may be indented less; then the text stays as it is.
        return text, ""
    statements = tree.body[0].body if block and isinstance(tree.body[0], ast.If) else tree.body
    function = statements[0] if statements else None  # a file without functions may be comments alone
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return text, ""
    docstring = ast.get_docstring(function)
    if docstring is None:
        return text, ""
    literal = function.body[0]
    # Lines as the parser counts them, and columns in bytes.
    lines = text.encode().splitlines(keepends=True)
    above = 1 if block else 0
    first, last = literal.lineno - above - 1, (literal.end_lineno or literal.lineno) - above - 1
    before, after = lines[first][: literal.col_offset], lines[last][literal.end_col_offset :]
    kept = b"".join([*lines[:first], before, after, *lines[last + 1 :]])
    return kept.decode(), docstring


def first_sentence(docstring: str) -> str:
    """The first paragraph's first sentence, on one line; empty if there is none."""
    paragraph = " ".join(docstring.strip().partition("\n\n")[0].split())
    return _SENTENCE_END.split(paragraph, maxsplit=1)[0]


def ranks_of(texts: Sequence[str], questions: Sequence[Question]) -> Ranks:
    """For every ranking, the rank of each question's first target, from 1; a slow peer may answer fewer questions."""
    ranks = _own_ranks(texts, questions)
    peers: Mapping[str, Callable[[Sequence[str]], rankers.Ranker]] = {
        "SQLite FTS5": rankers.Fts5,
        "tantivy": rankers.Tantivy,
        "bm25s": rankers.Bm25s,
        "rank_bm25": rankers.RankBM25,
        "CountVectorizer": rankers.Counted,
    }
    for name, peer in peers.items():
        until = time.monotonic() + _BUDGET_S / len(peers)
        index = peer(texts)
        found: list[int] = []
        for question in questions:
            if found and time.monotonic() > until:
                break
            found.append(first_rank(index.first(question.text, len(texts)), question.targets, len(texts)))
        ranks[name] = found
    return ranks


def _own_ranks(texts: Sequence[str], questions: Sequence[Question]) -> Ranks:
    asked = [words.words(question.text) for question in questions]
    asked_split = [words.words(words.split_identifiers(question.text)) for question in questions]
    plain_scores = scores_of(asked, texts, split_identifiers=False)
    split_scores = scores_of(asked_split, texts, split_identifiers=True)
    ranks: Ranks = {_BASELINE: [], "split words alone": [], "auxiliary-first": [], "baseline-first": []}
    for question, plain_score, split_score in zip(questions, plain_scores, split_scores, strict=True):
        plain: list[int] = bm25.ranking(plain_score).tolist()
        split: list[int] = bm25.ranking(split_score).tolist()
        orders = (plain, split, interleave(plain, split), interleave_baseline_first(plain, split))
        for found, order in zip(ranks.values(), orders, strict=True):
            found.append(first_rank(order, question.targets, len(texts)))
    return ranks


def scores_of(
    asked: Sequence[Sequence[str]], texts: Sequence[str], *, split_identifiers: bool
) -> list[npt.NDArray[np.float64]]:
    """BM25 of every text for each question's words, of which all have some."""
    vocabulary = sorted({word for question in asked for word in question})
    column_of = {word: column for column, word in enumerate(vocabulary)}
    counts = bm25.count(vocabulary, texts, split_identifiers=split_identifiers)
    terms: Any = counts.terms  # A SciPy matrix, of which the worker declares only what it reads.
    return [
        bm25.score(counts._replace(terms=terms[:, sorted(column_of[word] for word in set(question))]))
        for question in asked
    ]


def first_rank(order: Sequence[int], targets: frozenset[int], total: int) -> int:
    """The rank of the first target, from 1; `total` if there is none in the order."""
    return next((rank for rank, place in enumerate(order, 1) if place in targets), total)


def summary(ranks: Sequence[int]) -> tuple[float, float, float, float]:
    """Recall@1, Recall@10, mean reciprocal rank, mean rank."""
    number = len(ranks)
    return (
        sum(rank <= 1 for rank in ranks) / number,
        sum(rank <= 10 for rank in ranks) / number,
        sum(1 / rank for rank in ranks) / number,
        sum(ranks) / number,
    )


def compared(ranks: Sequence[int], baseline: Sequence[int]) -> tuple[int, int, int]:
    """How many ranks are better than the baseline's, worse, and the same."""
    pairs = list(zip(ranks, baseline, strict=True))
    better = sum(rank < other for rank, other in pairs)
    worse = sum(rank > other for rank, other in pairs)
    return better, worse, len(pairs) - better - worse


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__.partition("\n")[0])
    parser.add_argument("--root", metavar="DIR", required=True, help="the functions of the files below this folder")
    parser.add_argument("--language", choices=["python"], default="python", help="what they are written in")
    parser.add_argument("--effort", type=float, default=1.0, help=f"this share of {_QUESTIONS} questions (default: 1)")
    flags = parser.parse_args(arguments)
    try:
        part = of_documents(
            build_from_directory(flags.root, limits=corpus.UNBOUNDED, globs=["*.py"]).documents, flags.effort
        )
    except (CatalogError, NoQuestionsError) as error:
        print(f"bench.quality: {error}", file=sys.stderr)
        return 2
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(part.about)
    for table in part.tables:
        printed = Printed(*table.heading)
        for row in table.rows:
            printed.add_row(*row)
        console.print(printed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
