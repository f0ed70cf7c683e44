"""Ctrl-C at several moments of a search: one line, status 130, and no process left."""

import signal
import subprocess
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from tests.client.cli.processes import (
    EVENT_DEADLINE_S,
    FOLLOW_DEADLINE_S,
    Command,
    Role,
    many_functions,
    wait_until,
)

_MANY = 3_000


@pytest.fixture
def search(command: Command, tmp_path: Path) -> "subprocess.Popen[bytes]":
    """A search that does not end by itself, because nobody reads what it prints."""
    return command.start("search", "needle", "--root", many_functions(tmp_path, _MANY), "--json", "--all-pages")


def _is_interrupted(command: Command, search: "subprocess.Popen[bytes]") -> None:
    try:
        _, err = search.communicate(timeout=EVENT_DEADLINE_S)
    finally:
        search.kill()
    assert err == b"interrupted\n"
    assert search.returncode == 130
    wait_until(lambda: command.processes() == [], FOLLOW_DEADLINE_S)


@pytest.mark.parametrize("moment", ["manager", "template", "worker"])
def test_ctrl_c_when_a_process_has_just_started(
    command: Command, search: "subprocess.Popen[bytes]", moment: Role
) -> None:
    wait_until(lambda: command.has(moment))
    search.send_signal(signal.SIGINT)
    _is_interrupted(command, search)


def test_ctrl_c_while_pages_are_printed(command: Command, search: "subprocess.Popen[bytes]") -> None:
    assert cast(BinaryIO, search.stdout).readline().startswith(b"{")
    search.send_signal(signal.SIGINT)
    _is_interrupted(command, search)


def test_more_ctrl_c_do_not_interrupt_the_tidying_up(command: Command, search: "subprocess.Popen[bytes]") -> None:
    wait_until(lambda: command.has("template"))
    for _ in range(20):
        search.send_signal(signal.SIGINT)
    _is_interrupted(command, search)


def test_ctrl_c_while_the_catalog_is_built(command: Command, tmp_path: Path) -> None:
    # The grant comes first, so a search whose manager serves is at its catalog, which takes seconds here.
    text = "".join(f"def f{number}(x):\n    return [x * {number} for x in range(x)]\n" for number in range(5_000))
    for number in range(60):
        (tmp_path / f"m{number}.py").write_text(text)
    search = command.start("search", "x", "--root", tmp_path, "--fit")
    wait_until(lambda: command.has("template"))
    search.send_signal(signal.SIGINT)
    _is_interrupted(command, search)


def test_where_ctrl_c_is_ignored_it_stays_ignored(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(): pass\n")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for a job in the background
    try:
        search = command.start("search", "f", "--root", tmp_path, "--json")
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until(lambda: command.has("template"))
    search.send_signal(signal.SIGINT)
    out, err = search.communicate(timeout=EVENT_DEADLINE_S)
    assert (search.returncode, err) == (0, b"")
    assert out.startswith(b"{")
