"""The analyzers' fast form against their plain one: words, their order, lengths and breaks, for any texts at once."""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell_worker import bm25, scan, words
from tests.worker.requests import mixed_texts

_TEXTS = st.lists(mixed_texts | st.text(max_size=20) | st.text("aAzZ09 _\x00é", max_size=40), max_size=8)
_both = pytest.mark.parametrize("split", [False, True], ids=["as written", "split"])


class Read(NamedTuple):
    """What either form says of texts."""

    words: list[list[str]]
    lengths: list[int]
    breaks: int


def _plainly(texts: Sequence[str], *, split: bool) -> Read:
    split_texts = [words.split_identifiers(text) if split else text for text in texts]
    found = [words.words(text) for text in split_texts]
    return Read(found, [len(each) for each in found], sum(map(len, split_texts)) - sum(map(len, texts)))


def _fast(texts: Sequence[str], vocabulary: set[str], *, split: bool) -> Read:
    scanner = scan.Scanner([word.encode() for word in sorted(vocabulary)], split_identifiers=split)
    found = [[word for each in hits if (word := each.decode()) in vocabulary] for hits in scanner.scan(texts)]
    return Read(found, scanner.lengths, scanner.breaks)


def _differences(texts: Sequence[str], *, split: bool) -> list[str]:
    """The texts of which the two forms say different things, when every word is looked for."""
    plain = _plainly(texts, split=split)
    fast = _fast(texts, {word for found in plain.words for word in found}, split=split)
    assert fast.breaks == plain.breaks
    return [text for place, text in enumerate(texts) if any(fast[k][place] != plain[k][place] for k in (0, 1))]


@_both
def test_every_code_point_is_read_plainly_whatever_stands_beside_it(split: bool) -> None:
    texts = [
        "".join(f"{c} a{c}Bc A{c}a AA{c} 1{c}2 {c}A " for c in map(chr, range(start, start + 128)))
        for start in range(0, sys.maxunicode + 1, 128)
    ]
    texts.append(f"{texts[0]}東")  # ASCII, read in the way of all other texts.
    assert [f"in 128 from {text[0]!r}" for text in _differences(texts, split=split)] == []


@_both
@given(_TEXTS)
@example(["", "\x00", "a\x00b", "\x00a", "a\x00", "é\x00é", ""])
@example(["ΟΔΟΣ ΟΔΟΣ.", "İSTANBUL", "\ud800a\udfffB", "ǅaǅ", "aΣB"])
@example(["a", "B", "éA", "b", "C"])
def test_texts_are_read_plainly(split: bool, texts: list[str]) -> None:
    assert _differences(texts, split=split) == []


@_both
@given(_TEXTS, st.integers(1, 12))
def test_where_texts_are_cut_into_chunks_makes_no_difference(split: bool, texts: list[str], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_CHUNK", size)
        assert _differences(texts, split=split) == []


@_both
@given(_TEXTS, st.sets(st.sampled_from(["a", "z", "az", "é", "aé", "0", "a0", "absent"]), min_size=1))
def test_words_that_are_looked_for_are_found_and_all_are_counted(
    split: bool, texts: list[str], vocabulary: set[str]
) -> None:
    plain, fast = _plainly(texts, split=split), _fast(texts, vocabulary, split=split)
    assert fast.words == [[word for word in found if word in vocabulary] for found in plain.words]
    assert fast[1:] == plain[1:]


_LARGE = 2 * 1024 * 1024


@_both
@pytest.mark.parametrize(
    "texts",
    [
        ["word Word wordWord\n" * (_LARGE // 19)],
        ["Größe größeÄ ǅ Ⅷ\n" * (_LARGE // 22)],
        ["x" * _LARGE],
        ["日" * (_LARGE // 3)],
        ["aB" * (_LARGE // 2)],
        ["\x00" * _LARGE],
        ["."] * 4096,
        ["a"] * 4096,
        ["é", "a"] * 2048,
        [""] * 4096,
        ["", "long " * 40_000, "", "short", "long " * 40_000, ""],
    ],
    ids=[
        *("one text", "one text beyond ASCII", "one word", "one word beyond ASCII", "breaks alone", "NULs alone"),
        *("gaps of one byte", "texts of one byte", "mixed texts of one letter", "empty texts", "long among short ones"),
    ],
)
def test_extreme_catalogs_are_read_plainly(split: bool, texts: list[str]) -> None:
    assert _differences(texts, split=split) == []


def _counts(query: list[str], text: str) -> list[int]:
    return bm25.count(query, [text]).terms.toarray()[0].astype(int).tolist()


def test_words_that_share_their_first_eight_bytes_are_told_apart() -> None:
    query = sorted(["12345678", "123456789", "123456780", "1234567890123456", "1234567890123457", "1234567"])
    text = " ".join(word for times, word in enumerate(query) for _ in range(times))
    assert _counts(query, f"{text} 123456781 12345678x 1234567890123458 12345678901234567") == list(range(len(query)))


def test_words_that_hash_alike_are_told_apart() -> None:
    candidates = [str(number * number).encode() for number in range(10_000)]
    joined, ends = scan._join(candidates)
    sizes = np.array([len(word) for word in candidates])
    by_hash: dict[int, list[str]] = {}
    for word, hashed in zip(candidates, scan._hashes(joined, ends - sizes, sizes).tolist(), strict=True):
        by_hash.setdefault(hashed, []).append(word.decode())
    alike = [group for group in by_hash.values() if len(group) > 1]
    assert len(alike) >= 10
    for one, other, *_ in alike[:10]:
        assert _counts([one], f"{one} {other} {other}") == [1]
        assert _counts(sorted([one, other]), f"{one} {other} {one}") == [
            2 if one < other else 1,
            1 if one < other else 2,
        ]


def test_hundreds_of_words_are_looked_for_at_once() -> None:
    query = sorted(f"{letter}{number}" for letter in "zaσ東𝐀é" for number in range(300))
    assert _counts(query, " ".join(query[::2])) == [(place + 1) % 2 for place in range(len(query))]


@pytest.mark.parametrize("steps", [["é"], ["é", "\u0416"], ["\u4e00", "é"], ["ß", "\U0001f600", chr(sys.maxunicode)]])
def test_a_table_made_bit_by_bit_is_that_of_all_of_unicode(steps: list[str]) -> None:
    whole, grown = scan._CodePoints(), scan._CodePoints()
    whole.take(np.array([sys.maxunicode], dtype=np.uint32))
    for step in steps:
        codes = np.arange(ord(step) + 1, dtype=np.uint32)
        assert np.array_equal(grown.take(codes), whole.take(codes))
