"""Scores to the last bit, the logarithm to its published error, and the order of equal scores."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell_worker import bm25, words
from tests.worker import plain
from tests.worker.requests import mixed_texts

_few_words = st.lists(st.sampled_from(["a", "b", "c", "Ab", "größe", "σ", "1"]), max_size=15).map(" ".join)
_catalogs = st.lists(_few_words | mixed_texts, min_size=1, max_size=12)
_queries = _few_words.map(words.words)


@given(_queries, _catalogs)
def test_scores_are_the_plain_formulas_to_the_last_bit(query: list[str], texts: list[str]) -> None:
    assert bm25.scores(query, texts).tolist() == plain.bm25(query, texts, bm25.natural_log)


def test_scores_of_a_long_query_add_up_in_the_order_of_its_words_bytes() -> None:
    query = [f"{letter}{number}" for letter in "zaσ東𝐀é" for number in range(40)]
    texts = [" ".join(query[start::step]) for start in range(5) for step in (1, 2, 3, 7)]
    expected = plain.bm25([plain.lower(word) for word in query], texts, bm25.natural_log)
    for order in (query, query[::-1], query * 2):
        assert bm25.scores(order, texts).tolist() == expected


@given(_queries, _catalogs)
def test_the_order_of_the_catalog_changes_no_score(query: list[str], texts: list[str]) -> None:
    by_text = dict(zip(texts, bm25.scores(query, texts).tolist(), strict=True))
    shuffled = sorted(texts, key=lambda text: text[::-1])
    assert bm25.scores(query, shuffled).tolist() == [by_text[text] for text in shuffled]


@given(_queries, _catalogs, _catalogs)
def test_statistics_come_from_the_given_texts_alone(query: list[str], texts: list[str], others: list[str]) -> None:
    before = bm25.scores(query, texts).tolist()
    bm25.scores(query, others)
    assert bm25.scores(query, texts).tolist() == before


@pytest.mark.parametrize(("n", "df"), [(1, 1), (2, 1), (10, 3), (10, 10), (500, 1)])
def test_a_words_idf_counts_the_texts_that_hold_it(n: int, df: int) -> None:
    # All lengths are equal and tf is 1, so that the rest of the formula is one.
    scores = bm25.scores(["x"], ["x"] * df + ["y"] * (n - df)).tolist()
    idf = bm25.natural_log(1 + (n - df + 0.5) / (df + 0.5))
    assert scores == [idf * 2.2 / (1 + 1.2 * (0.25 + 0.75))] * df + [0.0] * (n - df)


def test_a_word_repeated_in_one_text_counts_once_in_df() -> None:
    twice, once, none = bm25.scores(["x"], ["x x", "x y", "y y"]).tolist()
    assert twice > once > none == 0
    assert once == bm25.natural_log(1 + (3 - 2 + 0.5) / (2 + 0.5)) * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75))


def test_every_word_counts_in_the_length_of_a_text_whether_in_the_query_or_not() -> None:
    short, long = bm25.scores(["x"], ["x y", "x y z z z z"]).tolist()
    assert short > long > 0


@pytest.mark.parametrize("texts", [[""], ["", ""], ["!?", "_"]])
def test_texts_without_words_score_zero(texts: list[str]) -> None:
    assert bm25.scores(["x"], texts).tolist() == [0.0] * len(texts)


def test_an_empty_text_lowers_the_average_length() -> None:
    query, texts = ["x"], ["x y", "", "x"]
    assert bm25.scores(query, texts).tolist() == plain.bm25(query, texts, bm25.natural_log)
    assert bm25.scores(query, texts)[1] == 0


@pytest.mark.parametrize("query", [[], ["absent"]])
def test_a_query_that_matches_nothing_scores_zero_everywhere(query: list[str]) -> None:
    assert bm25.scores(query, ["a", "b"]).tolist() == [0.0, 0.0]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.1 + 0.2, 0.3, 1.5]), min_size=1, max_size=60))
def test_ranking_is_best_first_and_ties_keep_catalog_order(scores: list[float]) -> None:
    assert bm25.ranking(np.array(scores)).tolist() == plain.best_first(scores)


def test_four_thousand_equal_scores_keep_catalog_order() -> None:
    assert bm25.ranking(np.zeros(4096)).tolist() == list(range(4096))


def _error_in_ulps(x: float) -> Decimal:
    value = bm25.natural_log(x)
    with localcontext(prec=40):
        return abs(Decimal(value) - Decimal(x).ln()) / Decimal(math.ulp(value))


def test_every_small_catalogs_idf_is_within_one_ulp() -> None:
    # fdlibm's e_log.c promises an error below one ulp.
    wrong = [
        (n, df) for n in range(1, 65) for df in range(1, n + 1) if _error_in_ulps(1 + (n - df + 0.5) / (df + 0.5)) >= 1
    ]
    assert wrong == []


@given(st.floats(min_value=5e-324, allow_infinity=False) | st.floats(0.5, 2) | st.floats(1, 8192))
def test_the_logarithm_is_within_one_ulp(x: float) -> None:
    assert _error_in_ulps(x) < 1
    assert abs(bm25.natural_log(x) - math.log(x)) <= math.ulp(math.log(x))


def test_the_logarithm_of_every_power_of_two_is_the_nearest_double() -> None:
    with localcontext(prec=40):
        wrong = [k for k in range(-1074, 1024) if bm25.natural_log(2.0**k) != float(k * Decimal(2).ln())]
    assert wrong == []


def test_the_logarithm_of_one_is_zero() -> None:
    assert bm25.natural_log(1.0) == 0.0


@pytest.mark.parametrize(
    ("n", "df", "log", "nearest"),
    [
        (1, 1, "0x1.269621134db92p-2", "0x1.269621134db91p-2"),
        (3, 1, "0x1.f62f40794a7bap-1", "0x1.f62f40794a7b9p-1"),
        (3, 2, "0x1.e148a1a2726cep-2", "0x1.e148a1a2726cfp-2"),
        (6, 5, "0x1.ede65f58845bcp-3", "0x1.ede65f58845bbp-3"),
        (7, 6, "0x1.a93ed3c8ad9e6p-3", "0x1.a93ed3c8ad9e5p-3"),
        (9, 3, "0x1.0cc1248b56cccp+0", "0x1.0cc1248b56ccbp+0"),
    ],
)
def test_the_logarithm_is_the_published_one_where_it_is_not_the_nearest(
    n: int, df: int, log: str, nearest: str
) -> None:
    # A C library that rounds correctly gives the other value here, and so another digest.
    x = 1 + (n - df + 0.5) / (df + 0.5)
    assert bm25.natural_log(x).hex() == log
    with localcontext(prec=40):
        assert float(Decimal(x).ln()).hex() == nearest
