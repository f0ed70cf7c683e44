"""The page has every figure of its run, and nothing of it is taken for HTML."""

import html
import re
import sys

import pytest

from bench import report
from bench.goals import GOALS, figure
from bench.results import Machine, Part, Plot, Run, Series, Table
from bench.timing import Spread


@pytest.fixture
def run() -> Run:
    machine = Machine(2, "A cpu <of> ours", 2**33, "Linux", "3.11", {"hintcell": "0"}, "3.40")
    plot = Plot("Sizes & times", "documents", "ms", [Series("a <b>", [1, 2], [3, 4])], x_log=True, y_log=True)
    parts = [
        Part(
            "peers",
            "About <script>.",
            [figure(GOALS[0].name, 7.125, "×"), figure("peers: other", Spread(1.25, 1.125, 1.375, 19), "ms")],
            [Table("Rows", ["", "head"], [["row", "cell"]], "A note.")],
            [plot],
        ),
        Part("start", "", failure="it took longer than 3 s"),
    ]
    return Run("2026-01-02T03:04:05+00:00", "abc123", 1.0, machine, parts, 12.0)


def test_every_figure_goal_table_and_failure_is_on_the_page(run: Run) -> None:
    page = report.page(run)
    for goal in GOALS:
        assert html.escape(f"{goal.row}. {goal.name}") in page
    for text in ("7.12×", "missed", "1.25 ms", "1.12 – 1.38", ">19<", "cell", "A note.", "longer than 3 s", "abc123"):
        assert text in page
    assert page.count("not measured<") == len(GOALS) - 1


def test_nothing_measured_is_taken_for_html(run: Run) -> None:
    page = report.page(run)
    assert "<script>" not in page
    assert "A cpu &lt;of&gt; ours" in page
    assert re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"", page.replace('xlink:href="#', '"')) == []


def test_a_page_without_the_extra_says_so_and_has_everything_else(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = report.page(run)
    assert "matplotlib is not installed" in page
    assert "7.12×" in page


def test_a_plots_black_becomes_the_pages_colour_and_its_size_the_pages_width() -> None:
    svg = '<?xml?><svg height="9pt" viewBox="0 0 9 9" width="9pt"><g style="fill: #010203; stroke: #040506"/></svg>\n'
    assert report._embedded(svg, "A & b") == (
        '<svg viewBox="0 0 9 9" role="img" aria-label="A &amp; b">'
        '<g style="fill: currentColor; stroke: var(--grid)"/></svg>'
    )


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4567, "×", "0.457×"),
        (1.5, "ms", "1.50 ms"),
        (12.34, "MiB", "12.3 MiB"),
        (1234.5, "µs", "1,234 µs"),
        (0, "", "0"),
    ],
)
def test_a_number_has_three_digits_or_more(value: float, unit: str, text: str) -> None:
    assert report.number(value, unit) == text
