from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from hintcell.cli.candidates import Row
from hintcell.cli.table import Columns, fold, heading, narrow, wide

_paths = st.text(st.sampled_from("ab_/.é界"), min_size=1, max_size=120)
_rows = st.lists(
    st.builds(
        Row,
        candidate_id=st.just(""),
        inspection_rank=st.integers(1, 4096),
        bm25_score=st.floats(0, 500),
        path=_paths,
        line=st.integers(1, 99_999),
        name=_paths,
    ),
    min_size=1,
    max_size=5,
)


@given(_paths, st.integers(2, 130))
def test_folding_loses_nothing_and_fits(text: str, width: int) -> None:
    parts = fold(text, width)
    assert "".join(parts) == text
    assert all(cell_len(part) <= width for part in parts)


def test_folding_breaks_between_folders_before_anything_else() -> None:
    assert fold("scipy/optimize/_lsq/trf_linear.py:18", 30) == ["scipy/optimize/_lsq/", "trf_linear.py:18"]
    assert fold("Reader.read_header_of_file", 24) == ["Reader.", "read_header_of_file"]
    assert fold("abcdefgh", 3) == ["abc", "def", "gh"]


def _is_too_wide_for_its_place_alone(line: str, rows: list[Row], width: int) -> bool:
    return cell_len(line) > width and any(line.endswith(row.where) for row in rows)


@given(_rows, _rows, st.integers(80, 200))
def test_a_wide_table_keeps_its_width_and_every_character_and_breaks_no_place(
    first: list[Row], rows: list[Row], width: int
) -> None:
    columns = Columns.for_rows(first, width)  # The rows may be of a later page.
    lines = [line.plain for line in wide(rows, columns, width)]
    assert cell_len(heading(columns).plain) <= width
    assert all(cell_len(line) <= width or _is_too_wide_for_its_place_alone(line, rows, width) for line in lines)
    shown = "".join("".join(lines).split())
    assert shown == "".join(f"{row.inspection_rank}{row.bm25_score:.2f}{row.where}{row.name}" for row in rows)
    assert all(any(row.where in line for line in lines) for row in rows)


@given(_rows, st.integers(30, 79))
def test_a_narrow_table_keeps_its_width_and_every_character_in_order_and_breaks_no_place(
    rows: list[Row], width: int
) -> None:
    lines = [line.plain for line in narrow(rows, Columns.for_rows(rows, width), width)]
    assert all(cell_len(line) <= width or _is_too_wide_for_its_place_alone(line, rows, width) for line in lines)
    shown = "".join("".join(lines).split())
    assert shown == "".join(f"{row.inspection_rank}{row.bm25_score:.2f}{row.name}{row.where}" for row in rows)
    assert all(any(row.where in line for line in lines) for row in rows)


def test_a_row_that_fits_is_one_line_without_blanks_at_its_end() -> None:
    rows = [Row("", 1, 17.789, "a/b.py", 3, "f"), Row("", 10, 2.0, "c.py", 12, "Reader.read")]
    columns = Columns.for_rows(rows, 80)
    assert [heading(columns).plain, *(line.plain for line in wide(rows, columns, 80))] == [
        "rank  score  where     name",
        "   1  17.79  a/b.py:3  f",
        "  10   2.00  c.py:12   Reader.read",
    ]


def test_a_place_that_is_too_long_for_its_column_moves_the_name_on_or_down() -> None:
    columns = Columns.for_rows([Row("", 1, 1.0, "a/b.py", 3, "f")], 80)
    rows = [Row("", 2, 1.0, "a/longer.py", 3, "f"), Row("", 3, 1.0, "long/" * 12, 1, "g" * 10)]
    assert [line.plain for line in wide(rows, columns, 80)] == [
        "   2   1.00  a/longer.py:3  f",
        f"   3   1.00  {'long/' * 12}:1",
        f"                       {'g' * 10}",
    ]
