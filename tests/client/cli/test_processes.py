"""`hintcell search` with a real manager and worker: output, errors, pipes, and what is left afterwards."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from hintcell import Client
from tests.client.cli.processes import EVENT_DEADLINE_S, Command, many_functions, wait_until

# More JSON than any pipe holds.
_MANY = 3_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "config.py").write_text(
        "def read_config(path):\n    return open(path)\n\n\nclass Store:\n    def writeConfig(self):\n        pass\n"
    )
    (tmp_path / "other.py").write_text("def unrelated():\n    pass\n")
    return tmp_path


def test_a_search_finds_what_matches_and_leaves_no_process(command: Command, root: Path) -> None:
    status, out, err = command.run("search", "read config", "--root", root)
    assert (status, err) == (0, "")
    lines = out.decode().splitlines()
    assert lines[0].split() == ["rank", "score", "where", "name"]
    assert lines[1].split()[0] == "1"
    assert lines[1].split()[2:] == ["config.py:1", "read_config"]
    assert "Nothing else has a word of the query." in lines
    assert command.processes() == []


def test_json_lines_are_the_whole_ranking(command: Command, root: Path) -> None:
    status, out, err = command.run(
        "search", "read config", "--root", root, "--json", "--identifier-hints", "--limit", "1", "--all-pages"
    )
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["inspection_rank"], row["path"], row["line"], row["name"]) for row in rows] == [
        (1, "config.py", 1, "read_config"),
        (2, "config.py", 6, "Store.writeConfig"),
        (3, "config.py", 5, "(rest)"),
        (4, "other.py", 1, "unrelated"),
    ]


def test_the_output_does_not_depend_on_a_terminal_or_its_settings(command: Command, root: Path) -> None:
    _, plain, _ = command.run("search", "read config", "--root", root, "--json")
    _, other, _ = command.run(
        "search", "read config", "--root", root, "--json", COLUMNS="20", FORCE_COLOR="1", PYTHONIOENCODING="ascii"
    )
    assert other == plain


def test_a_name_that_the_terminal_cannot_show_is_escaped(command: Command, tmp_path: Path) -> None:
    (tmp_path / "ü.py").write_text("def größe(): pass\n")
    status, out, err = command.run("search", "größe", "--root", tmp_path, PYTHONIOENCODING="ascii")
    assert (status, err) == (0, "")
    assert b"\\xfc.py:1" in out


def test_a_limit_that_is_exceeded_is_one_line_and_leaves_no_process(command: Command, tmp_path: Path) -> None:
    status, out, err = command.run("search", "needle", "--root", many_functions(tmp_path, 4_097))
    assert (status, out) == (1, b"")
    assert err.startswith("hintcell: too much for one snapshot: 4,097 documents (1 over the limit of 4,096)")
    assert err.count("\n") == 1
    assert command.processes() == []


def test_limits_raised_as_advised_are_enough_for_names_to_be_split(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def readConfig(): return 'getId'\n" * 50)
    arguments = ["search", "config", "--root", tmp_path, "--identifier-hints", "--max-text-bytes"]
    status, _, err = command.run(*arguments, "1599")
    assert status == 1
    assert "--max-text-bytes 1700;" in err  # 1,600, and two places in each to split
    _, out, _ = command.run(*arguments, "1600")
    assert b"the texts have 1,700 bytes, 100 over the limit of 1,600: " in out
    status, out, _ = command.run(*arguments, "1700")
    assert (status, b"policy identifier_bm25_baseline_first" in out) == (0, True)


def test_a_reader_that_leaves_ends_the_search_quietly(command: Command, tmp_path: Path) -> None:
    many_functions(tmp_path, _MANY)
    with command.start("search", "needle", "--root", tmp_path, "--json", "--all-pages") as process:
        out = cast(BinaryIO, process.stdout)
        assert json.loads(out.readline())["inspection_rank"] == 1
        out.close()
        assert cast(BinaryIO, process.stderr).read() == b""
        assert process.wait(EVENT_DEADLINE_S) == 0
    assert command.processes() == []


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_output_that_cannot_be_written_is_an_error(root: Path, flags: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "hintcell.cli", "search", "read", "--root", root, *flags],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=EVENT_DEADLINE_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"hintcell: cannot write the output: No space left on device\n"


def test_closed_streams_end_nothing(command: Command, root: Path) -> None:
    arguments = [sys.executable, "-P", "-m", "hintcell.cli", "search", "read config", "--root", str(root)]
    with subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *arguments]) as process:
        assert process.wait(EVENT_DEADLINE_S) == 0


def test_a_shared_manager_is_used_and_left_running(command: Command, root: Path, short_directory: Path) -> None:
    with command.start("serve", "--directory", short_directory) as served:
        wait_until((short_directory / "door").exists)
        status, out, err = command.run("search", "read config", "--root", root, "--directory", short_directory)
        assert (status, err) == (0, "")
        with Client(short_directory) as client:
            # The command has become the manager: whoever started it holds the manager itself.
            assert client.manager_pid == served.pid
            wait_until(lambda: not client.status().sessions)
        served.send_signal(2)
        assert served.wait(EVENT_DEADLINE_S) == 0
        assert b"read_config" in out
    assert command.processes() == []


def test_a_permission_change_ends_a_search_and_says_so(command: Command, tmp_path: Path, short_directory: Path) -> None:
    many_functions(tmp_path, _MANY)
    with command.start("serve", "--directory", short_directory) as served:
        wait_until((short_directory / "door").exists)
        with command.start(
            *("search", "needle", "--root", tmp_path, "--json", "--all-pages"),
            *("--directory", short_directory, "--principal", "alice"),
        ) as process:
            out = cast(BinaryIO, process.stdout)
            first = out.readline()
            with Client(short_directory) as client:
                report = client.permission_changed(labels=[f"folder:{tmp_path}"])
                assert len(report.ended) == 1
            rest = out.read()
            assert process.wait(EVENT_DEADLINE_S) == 1
            assert cast(BinaryIO, process.stderr).read() == (
                b"hintcell: the session ended: permission_changed: permissions changed\n"
            )
        ranks = [json.loads(line)["inspection_rank"] for line in [first, *rest.splitlines()]]
        assert ranks == list(range(1, len(ranks) + 1))  # Nothing that was delivered is lost,
        assert len(ranks) < _MANY  # and no page came after the change.
        served.terminate()


def test_no_manager_in_the_directory_is_one_line(command: Command, root: Path, short_directory: Path) -> None:
    status, out, err = command.run("search", "x", "--root", root, "--directory", short_directory)
    assert (status, out) == (1, b"")
    assert err == (
        f"hintcell: no manager serves {short_directory} ({os.strerror(2)}): start one with `hintcell serve`\n"
    )
