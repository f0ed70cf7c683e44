import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hintcell.cli.figures import age, counts, duration, json_line, mib, shown, sparkline
from hintcell_manager.protocol import GrantRequest, Sample


@given(st.text())
def test_what_is_shown_can_be_printed(text: str) -> None:
    assert shown(text).isprintable()


def test_what_can_be_printed_is_shown_as_it_is() -> None:
    assert shown("zoë [red]ö") == "zoë [red]ö"
    assert shown("a\x1b[31m\n\x9b\u202e") == r"a\x1b[31m\n\x9b\u202e"


@given(st.text())
def test_a_line_of_json_says_the_same_and_steers_no_terminal(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    line = json_line(GrantRequest(text)).decode()
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert json.loads(line)["principal"] == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (185, "3m05s"), (7_800, "2h10m"), (349_200, "4d01h")]
)
def test_an_age_has_two_units(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_figures_in_their_units() -> None:
    assert (mib(None), mib(0), mib(1536 * 1024)) == ("-", "0.0", "1.5")
    assert (duration(0.0031), duration(2.4)) == ("3.1 ms", "2.40 s")
    assert counts({"crashed": 1, "completed": 10}) == "completed 10, crashed 1"
    assert counts({}) == "none"


def test_a_sparkline_shows_uss_as_soon_as_it_was_read_and_else_rss() -> None:
    assert sparkline([Sample(0, 1, None), Sample(1, 2, None)], 8) == "▄█"
    assert sparkline([Sample(0, 99, None), Sample(1, 99, 7), Sample(2, 99, None), Sample(3, 99, 0)], 8) == "██▁"
    assert sparkline([Sample(0, 1, None), Sample(1, 2, None)], 8, ascii_only=True).isascii()
    assert sparkline([], 8) == ""
    assert sparkline([Sample(0, 0, 0)], 8) == "▁"


@given(st.lists(st.integers(0, 2**40), max_size=300), st.integers(1, 40))
def test_a_sparkline_fits_and_shows_the_highest(sizes: list[int], width: int) -> None:
    line = sparkline([Sample(float(at), size, None) for at, size in enumerate(sizes)], width)
    assert len(line) == min(width, len(sizes))
    if any(sizes):
        assert "█" in line
