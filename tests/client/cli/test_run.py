from pathlib import Path

import pytest

from hintcell.cli import search
from hintcell.cli.run import run
from tests.client.cli.fakes import FakeClient, put_in_place


def _broken(_directory: str | None) -> None:
    raise ZeroDivisionError("of\nours")


def test_a_bug_is_told_in_one_line_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(search, "Client", _broken)
    assert run(["search", "x", "--root", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hintcell: internal error, please report it: ZeroDivisionError at test_run.py:")
    assert err.endswith(": of ours\n")
    assert err.count("\n") == 1


def test_every_way_to_end_has_its_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put_in_place(monkeypatch, FakeClient([("a.py:1:f", 1.0)]))
    found = ["search", "x", "--root", str(tmp_path)]
    assert run(found) == 1  # There is no function.
    (tmp_path / "a.py").write_text("def f(): pass\n")
    assert run(found) == 0
    assert run(["search"]) == 2
    assert run(["--version"]) == 0
    assert "Traceback" not in capsys.readouterr().err
