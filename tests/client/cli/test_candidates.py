import json
from pathlib import Path

from hintcell.catalog import Location, build_from_directory
from hintcell.cli.candidates import json_line, row_of
from hintcell_worker.protocol import Candidate


def test_a_row_says_where_the_document_is_from_also_when_its_id_is_cut(tmp_path: Path) -> None:
    deep = "/".join(["a folder with a long name"] * 6)
    (tmp_path / deep).mkdir(parents=True)
    (tmp_path / deep / "c:2.py").write_text("def f(): pass\nclass C:\n  def g(self): pass\n")
    (tmp_path / "ü\n.py").write_text("def h(): pass")
    catalog = build_from_directory(tmp_path)
    rows = [row_of(Candidate(document.id, 1, 0.0), catalog.locations) for document in catalog.documents]
    assert [(row.path, row.line, row.name) for row in rows] == [
        (f"{deep}/c:2.py", 1, "f"),
        (f"{deep}/c:2.py", 3, "C.g"),
        (f"{deep}/c:2.py", 2, "(rest)"),
        ("ü\\n.py", 1, "h"),
    ]
    assert rows[0].candidate_id.startswith("…/")
    assert rows[3].where == "ü\\n.py:1"


def test_a_json_line_has_the_protocols_names_first_and_then_the_place() -> None:
    place = Location("p/ü.py", 7, "C.f")
    line = json_line(row_of(Candidate("p/ü.py:7:C.f", 2, 0.25), {"p/ü.py:7:C.f": place}))
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
