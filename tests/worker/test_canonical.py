"""Canonical strings, numbers and layout."""

import json
import math
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell_worker import canonical
from tests.worker import plain

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ALWAYS_ESCAPED = "<>&\u2028\u2029"

_texts = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from([*_SHORT, *_ALWAYS_ESCAPED, "\x00", "\x7f"])
)
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=12,
)


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    if character < " " or character in _ALWAYS_ESCAPED:
        return f"\\u{ord(character):04x}"
    return character


def test_every_code_point_is_written_as_the_rules_say() -> None:
    wrong = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code <= 0xDFFF and canonical.encode(chr(code)) != f'"{_escaped(chr(code))}"'.encode()
    ]
    assert wrong == []


@given(_values)
def test_a_value_is_written_without_spaces_and_reads_back(value: Any) -> None:
    encoded = canonical.encode(value)
    assert encoded == plain.json_text(value).encode()
    assert json.loads(encoded) == value


@given(_values)
def test_indenting_changes_the_layout_only(value: Any) -> None:
    indented = canonical.indent(canonical.encode(value))
    assert indented == plain.json_text(value, indent=2).encode()
    assert json.loads(indented) == value


@given(_texts)
def test_nothing_in_a_string_can_end_an_html_script(text: str) -> None:
    encoded = canonical.encode([text]).decode()
    assert not set(encoded) & set(_ALWAYS_ESCAPED)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (10.0, "10"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (2.5, "2.5"),
        (123456789012345680.0, "123456789012345680"),
        (1e-6, "0.000001"),
        (1.5e-6, "0.0000015"),
        (1.2345678901234567e-6, "0.0000012345678901234567"),
        (math.nextafter(1e-6, 0), "9.999999999999997e-7"),
        (9.5e-7, "9.5e-7"),
        (1e-7, "1e-7"),
        (1.25e-10, "1.25e-10"),
        (0.0001, "0.0001"),
        (0.00001, "0.00001"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1e20, "100000000000000000000"),
        (1.5e20, "150000000000000000000"),
        (math.nextafter(1e21, 0), "999999999999999900000"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (sys.float_info.max, "1.7976931348623157e+308"),
    ],
)
def test_numbers_at_the_ends_of_their_ranges(value: float, expected: str) -> None:
    assert bytes(canonical.number(value)) == expected.encode()


_floats = (
    st.floats(min_value=0, allow_infinity=False, allow_nan=False)
    | st.floats(1e-8, 1e-4)
    | st.floats(0, 30)
    | st.floats(1e14, 1e23)
    | st.integers(0, 2**53).map(float)
    | st.integers(-30, 30).map(lambda power: 10.0**power)
)


@given(_floats)
def test_a_number_is_written_plainly(value: float) -> None:
    assert bytes(canonical.number(value)).decode() == plain.number(value)


@given(_floats)
def test_a_number_reads_back_and_has_no_padding(value: float) -> None:
    text = bytes(canonical.number(value)).decode()
    assert float(text) == json.loads(text, parse_int=float) == value
    mantissa, _, exponent = text.partition("e")
    assert bool(exponent) == (value != 0 and not 1e-6 <= value < 1e21)
    assert exponent == "" or exponent[0] in "+-"
    assert not exponent[1:].startswith("0")
    assert "." not in mantissa or not mantissa.endswith(("0", "."))
    assert mantissa == "0" or not mantissa.startswith("0") or mantissa.startswith("0.")


@given(_floats)
@example(9.5e-7)
def test_no_shorter_number_reads_back(value: float) -> None:
    figures = [character for character in bytes(canonical.number(value)).decode().split("e")[0] if character.isdigit()]
    significant = len("".join(figures).strip("0"))
    if significant > 1:
        assert float(f"{value:.{significant - 2}e}") != value


@given(st.lists(_floats, max_size=4))
def test_numbers_stand_in_an_encoded_value_as_they_are(values: list[float]) -> None:
    encoded = canonical.encode([canonical.number(value) for value in values])
    assert encoded.decode() == f"[{','.join(map(plain.number, values))}]"
    assert json.loads(canonical.indent(encoded), parse_int=float) == values


@given(st.lists(_floats, max_size=6) | st.lists(st.floats(1e-4, 30) | st.integers(0, 9).map(float), max_size=6))
@example([0.0, 10.0, 0.05, 100.0])
@example([1e-7, 0.0, 1.5e-6])
def test_many_numbers_are_written_as_each_one_is(values: list[float]) -> None:
    assert bytes(canonical.numbers(values)) == canonical.encode([canonical.number(value) for value in values])


@given(st.lists(_values, max_size=3), st.sampled_from([0, 63, 64, 65, 128, 200]))
def test_a_list_encoded_in_parts_is_the_list_encoded(values: list[Any], more: int) -> None:
    values = [*values, *range(more)]
    assert b"".join(canonical.encode_in_parts(values)) == canonical.encode(values)
