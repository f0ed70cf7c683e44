import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hintcell.catalog import build_from_directory
from hintcell.cli.candidates import json_line, row_of
from hintcell_worker.protocol import Candidate


@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.integers(1),
    st.text(st.sampled_from("aé_1."), min_size=1),
)
def test_an_id_is_taken_apart_into_what_it_was_made_of(path: str, line: int, name: str) -> None:
    row = row_of(Candidate(f"{path}:{line}:{name}", 3, 1.5))
    assert (row.path, row.line, row.name) == (path, line, name)
    assert row.where == f"{path}:{line}"


def test_every_id_of_a_catalog_is_taken_apart(tmp_path: Path) -> None:
    (tmp_path / "a:1:b").mkdir()
    (tmp_path / "a:1:b" / "c:2.py").write_text("def f(): pass\nclass C:\n  def g(self): pass\n")
    (tmp_path / "ü\n.py").write_text("def h(): pass")
    rows = [row_of(Candidate(document.id, 1, 0.0)) for document in build_from_directory(tmp_path).documents]
    assert [(row.path, row.line, row.name) for row in rows] == [
        ("a:1:b/c:2.py", 1, "f"),
        ("a:1:b/c:2.py", 3, "C.g"),
        ("ü\\n.py", 1, "h"),
    ]


def test_a_json_line_has_the_protocols_names_first_and_then_the_parts_of_the_id() -> None:
    line = json_line(row_of(Candidate("p/ü.py:7:C.f", 2, 0.25)))
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert list(json.loads(line).items()) == [
        ("candidate_id", "p/ü.py:7:C.f"),
        ("inspection_rank", 2),
        ("bm25_score", 0.25),
        ("path", "p/ü.py"),
        ("line", 7),
        ("name", "C.f"),
    ]
