"""Texts at their headings: every line is in exactly one part, under the heading it belongs to."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hintcell.catalog import texts
from hintcell.catalog.model import Part

_LINES = [
    *(
        "# One",
        "## Two ##",
        "####### seven",
        "#no",
        "#",
        "text",
        "",
        "---",
        "===",
        "- item",
        "```",
        "~~~~",
        "    # code",
    ),
    *("| a | b |", "One", "***", "..", " inset", "======", "Title: a [link](x) `y`", "\f", "\u2028", "# \x07:"),
]
_made_up = st.builds(
    lambda lines, line_break: line_break.join(lines),
    st.lists(st.sampled_from(_LINES), max_size=30),
    st.sampled_from(["\n", "\r\n", "\r"]),
)


@pytest.mark.parametrize("split", [texts.markdown, texts.restructured_text, texts.plain_text, texts.whole])
@given(text=_made_up | st.text(max_size=50))
@example(text="x\n" * 5_000)
@example(text="x" * 9_000)
def test_every_line_is_in_one_part_in_its_order(split: Callable[[str], list[Part]], text: str) -> None:
    parts = split(text)
    assert "".join("".join(part.text.split()) for part in parts) == "".join(text.split())
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert [part.line for part in parts] == sorted({part.line for part in parts})
    for part in parts:
        assert part.text.strip()
        assert part.name.isprintable()
        assert part.name
        assert ":" not in part.name
        assert 1 <= part.line <= len(lines)


def _rows(parts: list[Part]) -> list[tuple[int, str, str]]:
    return [tuple(part) for part in parts]


def test_markdown_is_split_at_headings_of_both_forms() -> None:
    text = (
        "before\n\n# One: a `b` [c](d) #\n\ntext\n\n```sh\n# no heading\n```\n## \nSetext\n======\nmore\n\n"
        "Second\n---\n- item\n---\n\n---\n    # code\n"
    )
    assert _rows(texts.markdown(text)) == [
        (1, "(text)", "before"),
        (3, "One a b c", "# One: a `b` [c](d) #\n\ntext\n\n```sh\n# no heading\n```"),
        (10, "_", "##"),
        (11, "Setext", "Setext\n======\nmore"),
        (15, "Second", "Second\n---\n- item\n---\n\n---\n    # code"),
    ]


def test_matter_at_the_start_of_markdown_has_no_heading() -> None:
    assert _rows(texts.markdown("---\ntitle: x\n# a remark\n---\n# One\n")) == [
        (1, "(text)", "---\ntitle: x\n# a remark\n---"),
        (5, "One", "# One"),
    ]


def test_restructured_text_is_split_at_titles() -> None:
    text = (
        "=====\nTitle\n=====\n\ntext\n\nOne\n---\na\n\n****\n In\n****\n\n.. code::\n\n   x\n   ---\n\nlong title\n--\n"
    )
    assert _rows(texts.restructured_text(text)) == [
        (2, "Title", "=====\nTitle\n=====\n\ntext"),
        (7, "One", "One\n---\na"),
        (12, "In", "****\n In\n****\n\n.. code::\n\n   x\n   ---\n\nlong title\n--"),
    ]


def test_long_plain_text_is_split_at_blank_lines() -> None:
    block = "word " * 300 + "\n"
    parts = texts.plain_text((block * 2 + "\n") * 4)
    assert [part.line for part in parts] == [1, 4, 7, 10]
    assert {part.name for part in parts} == {"(text)"}
    assert len(texts.plain_text("short\n\ntext")) == 1


@pytest.mark.parametrize("line", ["# " + " " * 1_000_000 + "x", "#" * 1_000_000, "[" * 1_000_000, "=" * 1_000_000])
def test_one_huge_line_is_no_trouble(line: str) -> None:
    for split in (texts.markdown, texts.restructured_text, texts.plain_text):
        assert split(f"{line}\n=====\n")
