"""Pages within a budget of tokens: every hit once and in order, whatever the budget, and as many in a page as fit."""

from hypothesis import given
from hypothesis import strategies as st

from hintcell.integrations.mcp.pages import BYTES_PER_TOKEN, Pages, SearchPage
from hintcell.searches import Hit
from tests.integrations.mcp.ranking import Ranking, hit

# Cursors of one ranking differ in length by no more.
_CURSOR_TOKENS = 2

_names = st.text(st.characters(codec="utf-8"), max_size=120)
_hits = st.lists(st.tuples(_names, _names), max_size=40).map(
    lambda names: [hit(rank, path, name) for rank, (path, name) in enumerate(names, 1)]
)


def _read_to_the_end(pages: Pages, limit: int) -> list[SearchPage]:
    read = [pages.search("query", (), limit)]
    while (cursor := read[-1].next_cursor) is not None:
        read.append(pages.read("s", cursor, limit))
    return read


@given(hits=_hits, budget=st.none() | st.integers(1, 2_000), limit=st.integers(1, 100))
def test_reading_to_the_end_yields_every_hit_once_whatever_the_budget(
    hits: list[Hit], budget: int | None, limit: int
) -> None:
    read = _read_to_the_end(Pages(Ranking(hits), budget), limit)
    assert [found.id for page in read for found in page.hits] == [found.id for found in hits]
    assert all(len(page.hits) <= limit for page in read)


@given(hits=_hits, budget=st.integers(1, 2_000), limit=st.integers(1, 100))
def test_a_page_fits_or_has_one_hit(hits: list[Hit], budget: int, limit: int) -> None:
    for page in _read_to_the_end(Pages(Ranking(hits), budget), limit):
        assert page.tokens() <= budget or len(page.hits) <= 1


@given(hits=_hits, budget=st.integers(1, 2_000), limit=st.integers(1, 100))
def test_one_more_hit_would_not_fit(hits: list[Hit], budget: int, limit: int) -> None:
    source = Ranking(hits)
    start = 0
    for page in _read_to_the_end(Pages(source, budget), limit):
        count = len(page.hits)
        start += count
        if page.next_cursor is not None and count < limit:
            longer = page.hits + SearchPage.of(source.read("s", page.next_cursor, 1)).hits
            assert page.model_copy(update={"hits": longer}).tokens() > budget - _CURSOR_TOKENS
    assert start == len(hits)


def test_a_page_that_is_too_long_is_asked_for_again_at_most_twice() -> None:
    source = Ranking([hit(rank, "long/" * rank) for rank in range(1, 101)])
    page = Pages(source, 500).search("query", (), 100)
    assert 1 < len(page.hits) < 100
    assert len(source.asked) <= 4  # One hit to begin with, and the rest of the page up to three times.


def test_without_a_budget_a_page_is_as_long_as_asked_for() -> None:
    source = Ranking([hit(rank) for rank in range(1, 301)])
    assert len(Pages(source, None).search("query", (), 100).hits) == 100
    assert source.asked == [("query", (), 100)]


def test_tokens_are_four_bytes_each_of_the_longer_form() -> None:
    page = SearchPage.of(Ranking([hit(1)]).search("query", (), 1))
    assert page.tokens() == -(-len(page.model_dump_json().encode()) // BYTES_PER_TOKEN)
    assert len(page.as_text()) < len(page.model_dump_json())


def test_the_text_has_a_line_for_each_hit_and_says_how_to_go_on() -> None:
    page = SearchPage.of(Ranking([hit(1), hit(2), hit(3)], {"links": 2}).search("query", (), 2))
    assert page.as_text().splitlines() == [
        "a/b.py:1 Reader.read",
        "a/b.py:2 Reader.read",
        "(ranks 1-2 of 3; read the files at these lines with your own tools)",
        "(not searched: links: 2)",
        f"(next page: more_results session=s cursor={page.next_cursor})",
    ]


def test_the_last_page_does_not_say_how_to_go_on() -> None:
    page = SearchPage.of(Ranking([hit(1)]).search("query", (), 2))
    assert page.next_cursor is None
    assert page.as_text().splitlines() == [
        "a/b.py:1 Reader.read",
        "(ranks 1-1 of 1; read the files at these lines with your own tools)",
    ]
