"""The picture in the documentation is the table in the code."""

from hintcell_manager.diagram import state_diagram
from tests.manager.places import ROOT


def test_the_documentation_shows_the_table_as_it_is() -> None:
    assert f"```mermaid\n{state_diagram()}\n```" in (ROOT / "docs" / "sessions.md").read_text()
