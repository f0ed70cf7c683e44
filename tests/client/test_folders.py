"""A folder as what is searched: what a model is told when it is too much, which it can only narrow."""

import json
import re
from pathlib import Path

import pytest

from hintcell.catalog import CatalogError
from hintcell.folders import folder_catalog
from hintcell_worker.protocol import Limits


@pytest.mark.parametrize("own", [[], ["*.py"]])
def test_a_model_is_told_globs_that_fit_and_the_user_what_to_raise(tmp_path: Path, own: list[str]) -> None:
    for name in ("a", "b/c", "b"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "x.py").write_text("def f(): pass\n" * 2)
        (tmp_path / name / "x.js").write_text("function f() {}\n" * (not own))
    limits = Limits(3)
    with pytest.raises(CatalogError, match=r"^too much for one search: ") as refusal:
        folder_catalog(tmp_path, globs=own, limits=limits)("alice", [])
    count = 6 if own else 9
    assert f"the user can raise the limits (max_documents={count})" in str(refusal.value)
    named = re.findall(r"(\[.*?\]) \(has (\d)\)", str(refusal.value))
    assert len(named) == 3
    for globs, documents in named:
        snapshot = folder_catalog(tmp_path, globs=own, limits=limits)("alice", json.loads(globs))
        assert len(snapshot.documents) == int(documents)
