"""What the documentation draws and tells of a session's life is the table in the code."""

import re
from xml.etree import ElementTree as Xml

from hintcell_manager.sessions import TABLE, State
from tests.manager.places import ROOT

_SVG = "{http://www.w3.org/2000/svg}"


def _instruction(made_by: object) -> str:
    """`StartWorker` as `start worker`; `_refuse` makes a `Refuse`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", getattr(made_by, "__name__", "").strip("_")).lower()


def _rows() -> list[tuple[str, str, str, str]]:
    """State, event, next state and instruction, as they are written there."""
    return [
        (state.value, event.value, step.state.value, _instruction(step.instruction))
        for (state, event), step in TABLE.items()
    ]


def test_the_picture_has_an_arrow_for_each_row_of_the_table() -> None:
    picture = Xml.parse(ROOT / "docs" / "images" / "sessions.svg")
    drawn = [
        (arrow.get("data-from"), arrow.get("data-to"), text.text)
        for arrow in picture.iterfind(f"{_SVG}g[@class='arrow']")
        for text in arrow.iterfind(f"{_SVG}text")
    ]
    meant = [(state, after, f"{event} / {done}" if done else event) for state, event, after, done in _rows()]
    assert sorted(drawn, key=str) == sorted([(None, State.ADMITTED.value, "open"), *meant], key=str)
    states = [text.text for text in picture.iterfind(f"{_SVG}g[@class='state']/{_SVG}text")]
    assert states == [state.value for state in State]


def test_the_documentation_has_the_table_in_words() -> None:
    page = (ROOT / "docs" / "sessions.md").read_text()
    told = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.*?) *\|$", page.partition("| state ")[2], re.MULTILINE)
    assert told[1:] == _rows()
