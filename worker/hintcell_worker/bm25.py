"""BM25 scores of every document for one query.

Counting goes through scikit-learn's CountVectorizer with the project's analyzer; only the query's words get
columns, and the lengths come from the same pass. Scores are the same to the last bit on every machine: the
order of the floating-point operations is part of the protocol, and the logarithm is computed here.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import CountVectorizer

from hintcell_worker import words

# k1 and b of Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, section 3.5).
_K1: Final = 1.2
_B: Final = 0.75


def scores(query_words: Iterable[str], texts: Sequence[str]) -> npt.NDArray[np.float64]:
    """BM25 of each text for the distinct `query_words`; shape (len(texts),), 0 where nothing matches.

    With N texts, of which df hold a word, tf times in a text of len words (avglen on average):
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)); score += idf tf (k1 + 1) / (tf + k1 (1 - b + b len / avglen)),
    word by word in the order of their UTF-8 bytes, which is the order of their code points.
    """
    total = np.zeros(len(texts), dtype=np.float64)
    vocabulary = sorted(set(query_words))
    if not vocabulary:
        return total
    counts, lengths = _count(vocabulary, texts)
    average = float(lengths.sum()) / len(texts) or 1.0
    norm = _K1 * (1 - _B + _B * lengths / average)
    for column in range(len(vocabulary)):
        start, end = counts.indptr[column], counts.indptr[column + 1]
        rows, tf = counts.indices[start:end], counts.data[start:end]
        df = int(end - start)
        idf = natural_log(1 + (len(texts) - df + 0.5) / (df + 0.5))
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


def _count(vocabulary: Sequence[str], texts: Sequence[str]) -> tuple[_Columns, npt.NDArray[np.float64]]:
    """Term counts in a compressed sparse column matrix, (texts, vocabulary), and the texts' lengths in words."""
    wanted = frozenset(vocabulary)
    lengths: list[int] = []

    def analyze(text: str) -> Iterable[str]:
        found = words.words(text)
        lengths.append(len(found))
        return filter(wanted.__contains__, found)

    vectorizer = CountVectorizer(analyzer=analyze, vocabulary=vocabulary, dtype=np.float64)
    counts = vectorizer.transform(texts).tocsc()
    return counts, np.array(lengths, dtype=np.float64)


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
