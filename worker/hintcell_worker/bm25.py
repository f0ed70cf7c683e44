"""BM25 scores of every document for one query.

Counting goes through scikit-learn's CountVectorizer with the project's analyzers, in their fast form; only the
query's words get columns, and the lengths come from the same pass. Scores are the same to the last bit on every
machine: the order of the floating-point operations is part of the protocol, and the logarithm is computed here.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hintcell_worker.scan import Scanner
from hintcell_worker.vectorizer import CountVectorizer

# k1 and b of Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, section 3.5).
_K1: Final = 1.2
_B: Final = 0.75


class Counts(NamedTuple):
    """What is known of texts for one query.

    Attributes:
        terms: how often each text holds each of the query's distinct words, these in the order of their UTF-8 bytes,
            which is the order of their code points; shape (texts, words).
        lengths: words in each text; shape (texts,).
        breaks: places where an identifier was split, in all texts together.
    """

    terms: "_Columns"
    lengths: npt.NDArray[np.float64]
    breaks: int


def count(query_words: Iterable[str], texts: Sequence[str], *, split_identifiers: bool = False) -> Counts:
    """Count at least one of `query_words` and all words in each text, whose identifiers may first be split."""
    vocabulary = sorted({word.encode() for word in query_words})
    scanner = Scanner(vocabulary, split_identifiers=split_identifiers)
    found = scanner.scan(texts)
    columns = {word: column for column, word in enumerate(vocabulary)}
    # Asked for one text after the other, the analyzer answers from a scan that is a chunk of texts ahead. What it
    # finds beside the vocabulary is not counted.
    vectorizer = _Vectorizer(analyzer=lambda _: next(found), vocabulary=columns, dtype=np.float64)
    terms = vectorizer.transform(texts).tocsc()
    return Counts(terms, np.array(scanner.lengths, dtype=np.float64), scanner.breaks)


def scores(query_words: Collection[str], texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """BM25 of each text for the distinct `query_words`; shape (len(texts),), 0 where nothing matches."""
    return score(count(query_words, texts)) if query_words else np.zeros(len(texts), dtype=np.float64)


def score(counts: Counts) -> npt.NDArray[np.float64]:
    """BM25 of each text; shape (texts,), 0 where nothing matches.

    With N texts, of which df hold a word, tf times in a text of len words (avglen on average):
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)); score += idf tf (k1 + 1) / (tf + k1 (1 - b + b len / avglen)),
    word by word in the order of the columns.
    """
    terms, lengths, _ = counts
    total = np.zeros(len(lengths), dtype=np.float64)
    average = float(lengths.sum()) / len(lengths) or 1.0
    norm = _K1 * (1 - _B + _B * lengths / average)
    for start, end in itertools.pairwise(terms.indptr.tolist()):
        rows, tf, df = terms.indices[start:end], terms.data[start:end], end - start
        idf = natural_log(1 + (len(lengths) - df + 0.5) / (df + 0.5))
        total[rows] += idf * tf * (_K1 + 1) / (tf + norm[rows])
    return total


def ranking(score: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Catalog positions, best first; equal scores keep the catalog's order."""
    return np.argsort(-score, kind="stable")


class _Columns(Protocol):
    """A compressed sparse column matrix, as far as it is read here."""

    @property
    def indptr(self) -> npt.NDArray[np.signedinteger]: ...
    @property
    def indices(self) -> npt.NDArray[np.signedinteger]: ...
    @property
    def data(self) -> npt.NDArray[np.float64]: ...


class _Vectorizer(CountVectorizer):
    """Calls its analyzer directly, not by way of what decodes files."""

    def build_analyzer(self) -> Callable[[str], Iterable[bytes]]:
        return self.analyzer


# Coefficients of the fdlibm logarithm (Sun Microsystems, 1993, e_log.c).
_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_L1: Final = 6.666666666666735130e-01
_L2: Final = 3.999999999940941908e-01
_L3: Final = 2.857142874366239149e-01
_L4: Final = 2.222219843214978396e-01
_L5: Final = 1.818357216161805012e-01
_L6: Final = 1.531383769920937332e-01
_L7: Final = 1.479819860511658591e-01


def natural_log(x: float) -> float:
    """ln(x) for finite x > 0, by fdlibm's method in plain double arithmetic.

    The C library's logarithm differs from host to host in the last bit, and so would the ranking's digest.
    x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); ln(1 + f) = f - s (f - R) with s = f / (2 + f) and R the
    polynomial in s^2 that fdlibm publishes.
    """
    fraction, k = math.frexp(x)
    if fraction < math.sqrt(0.5):
        fraction *= 2
        k -= 1
    f = fraction - 1
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_L1 + s4 * (_L3 + s4 * (_L5 + s4 * _L7)))
    even = s4 * (_L2 + s4 * (_L4 + s4 * _L6))
    half_square = 0.5 * f * f
    return k * _LN2_HIGH - ((half_square - (s * (half_square + odd + even) + k * _LN2_LOW)) - f)
