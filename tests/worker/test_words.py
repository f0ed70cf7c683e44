"""The analyzers against a plain reading of their rules, one code point at a time."""

import itertools
import sys
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell_worker import words
from tests.worker import plain
from tests.worker.requests import mixed_texts

_CODE_POINTS = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF]
_TEXTS = mixed_texts | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
# One of each kind that any rule names, or that is easily taken for one of them.
_KINDS = "Aßǅʰ東5Ⅷ²_\u0301 B"


def test_lower_is_right_for_every_code_point() -> None:
    assert [c for c in _CODE_POINTS if words.lower(c) != plain.lower(c)] == []


def test_no_code_point_changes_the_lower_case_of_another() -> None:
    everything = "".join(_CODE_POINTS)
    assert words.lower(everything) == plain.lower(everything)
    # The final sigma of `str.lower` needs a letter before it.
    assert words.lower("".join(f"a{c} " for c in _CODE_POINTS)) == plain.lower("".join(f"a{c} " for c in _CODE_POINTS))


def test_lower_keeps_the_number_of_code_points() -> None:
    assert [c for c in _CODE_POINTS if len(words.lower(c)) != 1] == []


def _word_or_gap(character: str) -> list[str]:
    small = plain.lower(character)
    is_word = category(small).startswith("L") or category(small) == "Nd"
    return [f"x{small}x"] if is_word else ["x", "x"]


def test_word_membership_is_right_for_every_code_point() -> None:
    assert [c for c in _CODE_POINTS if words.words(f"x{c}x") != _word_or_gap(c)] == []


def _split_by_category(c: str) -> str:
    """`aXBa AAX`, split as X's category wants it."""
    kind = category(c)
    before_it = " " if kind == "Lu" else ""
    after_it = " " if kind in ("Lu", "Ll", "Nd") else ""
    before_its_neighbour = " " if kind == "Ll" else ""
    return f"a{before_it}{c}{after_it}Ba A{before_its_neighbour}A{c}"


def test_a_break_is_right_around_every_code_point() -> None:
    blocks = [_CODE_POINTS[start : start + 1024] for start in range(0, len(_CODE_POINTS), 1024)]
    wrong = [
        f"in 1024 from U+{ord(block[0]):04X}"
        for block in blocks
        if words.split_identifiers("\n".join(f"a{c}Ba AA{c}" for c in block))
        != "\n".join(map(_split_by_category, block))
    ]
    assert wrong == []


def test_a_break_is_right_in_every_short_sequence_of_kinds() -> None:
    texts = ["".join(kinds) for length in range(5) for kinds in itertools.product(_KINDS, repeat=length)]
    assert [text for text in texts if words.split_identifiers(text) != plain.split_identifiers(text)] == []


@given(_TEXTS)
@example("ΟΔΟΣ ΟΔΟΣ. Σ")
@example("İSTANBUL Iı\u0307")
def test_lower_is_plain_lower(text: str) -> None:
    assert words.lower(text) == plain.lower(text)


@given(_TEXTS)
def test_words_are_the_plain_words(text: str) -> None:
    assert words.words(text) == plain.words(text)


@given(_TEXTS)
def test_identifiers_are_split_plainly(text: str) -> None:
    assert words.split_identifiers(text) == plain.split_identifiers(text)


@given(_TEXTS)
def test_splitting_only_adds_spaces_and_only_once(text: str) -> None:
    once = words.split_identifiers(text)
    assert once.replace(" ", "") == text.replace(" ", "")
    assert words.split_identifiers(once) == once


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_and_unicode_forms_agree(text: str) -> None:
    assert words.words(text) == words.words(f"{text}—") == plain.words(text)
    assert f"{words.split_identifiers(text)}—" == words.split_identifiers(f"{text}—")


@given(_TEXTS, _TEXTS)
def test_words_of_two_texts_do_not_touch(left: str, right: str) -> None:
    assert words.words(f"{left} {right}") == words.words(left) + words.words(right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ΣΟΦΟΣ Σ", ["σοφοσ", "σ"]),
        ("İstanbul", ["istanbul"]),
        ("next_cursor", ["next", "cursor"]),
        ("x²y Ⅷ", ["x", "y"]),
        ("e\u0301te", ["e", "te"]),
        ("٣२5", ["٣२5"]),
        ("東京tower", ["東京tower"]),
        ("", []),
    ],
)
def test_words_of_known_texts(text: str, expected: list[str]) -> None:
    assert words.words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTPServerID2", "HTTP Server ID2"),
        ("parseHTTPRequest", "parse HTTP Request"),
        ("utf8String", "utf8 String"),
        ("ABCd", "AB Cd"),
        ("ÀÉÎo", "ÀÉ Îo"),
        ("snake_Case", "snake_Case"),
        ("ǅa AǅB", "ǅa AǅB"),
    ],
)
def test_splits_of_known_identifiers(text: str, expected: str) -> None:
    assert words.split_identifiers(text) == expected
