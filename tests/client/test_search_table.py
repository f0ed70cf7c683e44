"""The table of open searches: who makes room for whom, and who waits."""

import threading
from typing import NamedTuple

import pytest

from hintcell.search_table import ClosedTableError, End, NoPlaceError, SearchTable

_EVICTED = End("evicted", "made room")


class _Search(NamedTuple):
    principal: str
    handle: str


def _table(most: int = 2) -> SearchTable[_Search]:
    return SearchTable(most, _EVICTED)


def _opened(table: SearchTable[_Search], principal: str, handle: str) -> tuple[_Search, list[_Search]]:
    """Open and use a search; and what made room for it."""
    search = _Search(principal, handle)
    with table.place(principal, 0):
        evicted = table.add(search)
    return search, evicted + table.give_back(search)


def test_the_longest_unused_makes_room() -> None:
    table = _table()
    first, _ = _opened(table, "ana", "1")
    second, _ = _opened(table, "ana", "2")
    assert table.take("ana", "1") is first
    table.give_back(first)
    assert _opened(table, "ana", "3")[1] == [second]
    assert table.take("ana", "2") == _EVICTED


def test_one_in_use_never_makes_room() -> None:
    table = _table()
    first, _ = _opened(table, "ana", "1")
    table.take("ana", "1")
    second, _ = _opened(table, "ana", "2")
    assert _opened(table, "ana", "3")[1] == [second]
    assert table.take("ana", "1") is first


def test_places_are_counted_from_when_a_search_is_being_opened() -> None:
    table = _table()
    with table.place("ana", 0), table.place("ana", 0):
        with pytest.raises(NoPlaceError), table.place("ana", 0):
            raise AssertionError
        with table.place("bob", 0):
            pass
    with table.place("ana", 0):
        pass


def test_a_search_that_was_taken_meanwhile_makes_room_when_it_is_given_back() -> None:
    table = _table(1)
    first, _ = _opened(table, "ana", "1")
    with table.place("ana", 0):
        table.take("ana", "1")
        second = _Search("ana", "2")
        assert table.add(second) == []
    assert table.give_back(first) == [first]
    assert table.give_back(second) == []


@pytest.mark.parametrize("how", ["given back", "ended", "closed"])
def test_whoever_waits_goes_on_when_there_is_a_place(how: str) -> None:
    table = _table(1)
    first, _ = _opened(table, "ana", "1")
    table.take("ana", "1")
    outcome: list[str] = []
    started = threading.Event()

    def wait() -> None:
        started.set()
        try:
            with table.place("ana", 60):
                outcome.append("a place")
        except ClosedTableError:
            outcome.append("closed")

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait(60)
    if how == "given back":
        table.give_back(first)
    elif how == "ended":
        assert table.end("ana", "1", End("completed", "closed")) is first
    else:
        assert table.close() == [first]
    thread.join(60)
    assert outcome == ["closed" if how == "closed" else "a place"]


def test_nobody_takes_or_ends_what_is_anothers_or_learns_its_end() -> None:
    table = _table()
    search, _ = _opened(table, "ana", "1")
    end = End("completed", "closed")
    assert table.take("bob", "1") is None
    assert table.end("bob", "1", end) is None
    assert table.end("ana", "1", end) is search
    assert table.end("ana", "1", end) is None
    assert (table.take("ana", "1"), table.take("bob", "1")) == (end, None)


def test_ends_are_forgotten_in_time() -> None:
    table = _table()
    for number in range(1_100):
        _opened(table, "ana", str(number))
    assert table.take("ana", "0") is None
    assert table.take("ana", "1000") == _EVICTED


def test_a_closed_table_takes_nothing_in() -> None:
    table = _table()
    with table.place("ana", 0):
        table.close()
        with pytest.raises(ClosedTableError):
            table.add(_Search("ana", "1"))
    with pytest.raises(ClosedTableError), table.place("ana", 0):
        raise AssertionError
