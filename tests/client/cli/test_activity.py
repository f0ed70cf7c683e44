import io
import sys

import pytest

from hintcell.cli.activity import Activity
from tests.client.cli.processes import wait_until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error from here on; not a fixture, because pytest sets its own once more before the test."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return terminal


def test_a_long_wait_is_shown_and_leaves_nothing_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with Activity(patience_s=0) as activity:
        activity.says("Reading functions")
        wait_until(lambda: "Reading functions" in terminal.getvalue())
        activity.files_done(1_234, 5_678)
        wait_until(lambda: "1,234/5,678 files" in terminal.getvalue())
        activity.says("Ranking")
        wait_until(lambda: "Ranking" in terminal.getvalue())
    assert "files" not in terminal.getvalue().rpartition("Ranking")[2]
    assert terminal.getvalue().endswith("\x1b[2K")  # The line is erased,
    assert terminal.getvalue().rfind("\x1b[?25h") > terminal.getvalue().rfind("\x1b[?25l")  # and the cursor is back.


def test_a_short_wait_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with Activity() as activity:
        activity.says("Reading functions")
        activity.files_done(1, 2)
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Activity(patience_s=0) as activity:
        activity.says("Reading functions")
        activity.files_done(1, 2)
    assert capsys.readouterr() == ("", "")
