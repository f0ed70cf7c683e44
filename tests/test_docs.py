"""Every block of the README and the documentation is what it says: code runs, data is read, and output is as printed.

A block of `sh` runs in a folder with a small project, unless a comment above it says why not; then its `hintcell`
lines are parsed. A block below the comment `<!-- prints -->` is what the `sh` block before it printed.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import msgspec
import pytest

from bench.report import number
from bench.results import Run
from hintcell.cli.group import commands
from tests.client.searches import serving, short_directory

_ROOT = Path(__file__).parents[1]
_PAGES = [_ROOT / "README.md", *sorted((_ROOT / "docs").glob("*.md"))]
_PROMISES = _ROOT / "tests" / "faults" / "README.md"
_BLOCK = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = "shown, not run: "
_PRINTS = "prints"
_KEPT_RUN = re.compile(r"`(bench/runs/[\w.-]+\.json)`")
_FIGURES = "| figure | measured | goal | reached |\n| --- | --- | --- | --- |\n"
# Nothing of these runs or is read by hintcell.
_SHOWN = {"text"}
# Of the source: as of code.
_LINE_WIDTH = 120
# Of the site at its full width, without scrolling. What was printed has the width that it has.
_EXAMPLE_WIDTH = 88
# A manager and a template start in two seconds, ten on a machine under load.
_EXAMPLE_S = 60


class Block(NamedTuple):
    """A fenced block, the comment above it, and the block before it."""

    comment: str
    language: str
    text: str
    before: str


def _blocks(page: Path) -> Iterator[Block]:
    before = ""
    for comment, language, text in _BLOCK.findall(page.read_text()):
        yield Block(comment, language, text, before)
        before = text


def _of(*languages: str) -> list[object]:
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in _PAGES
        for number, block in enumerate(_blocks(page), 1)
        if block.language in languages
    ]


def _run(command: list[str], folder: Path, runtime: Path | None = None) -> subprocess.CompletedProcess[str]:
    scripts = str(Path(sys.executable).parent)
    places = {"PATH": f"{scripts}:{os.environ['PATH']}", "HOME": str(folder), "XDG_RUNTIME_DIR": str(runtime or folder)}
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | places,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_EXAMPLE_S,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project to search."""
    for name, text in {
        "src/config.py": 'def read_config(path):\n    """Read the configuration."""\n    return open(path).read()\n',
        "src/server.go": "package main\n\nfunc serve(port int) error {\n\treturn nil\n}\n",
        "policy.toml": '[principals.alice]\nallow = ["**"]\n',
        "docs/guide.md": "# Guide\n\n## Configuration\n\nRead it from a file.\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(scope="session")
def runtime() -> Iterator[Path]:
    """A user's runtime directory, where a manager serves."""
    with short_directory() as folder, serving(folder / "hintcell"):
        yield folder


def test_there_are_blocks_of_each_kind() -> None:
    assert len(_of("python")) >= 4
    assert len(_of("sh")) >= 4
    assert len(_of("json")) >= 2


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in _blocks(page):
        assert block.language in {"python", "sh", "json", "toml", *_SHOWN}, block.text
        assert not block.comment or block.comment == _PRINTS or block.comment.startswith(_NOT_RUN)
        assert block.comment != _NOT_RUN.strip()
    outside = _BLOCK.sub("", page.read_text())
    assert "```" not in outside
    assert not re.search(r"^ {4}(hintcell|make|pip|python) ", outside, re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in _PAGES if page.name != "README.md"], ids=lambda page: page.name)
def test_no_example_has_to_be_scrolled(page: Path) -> None:
    blocks = [block.text for block in _blocks(page) if block.language not in _SHOWN and block.comment != _PRINTS]
    assert [line for text in blocks for line in text.splitlines() if len(line) > _EXAMPLE_WIDTH] == []


def _promises(page: Path) -> list[str]:
    """The numbered promises of a page, each on one line and without its links."""
    section = page.read_text().partition("## What holds, always\n")[2].lstrip().partition("\n\n")[0]
    items = [" ".join(item.split()) for item in re.split(r"^\d+\. ", section, flags=re.MULTILINE)[1:]]
    return [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", item) for item in items]


def test_the_site_promises_what_the_readme_promises() -> None:
    readme, site = _promises(_ROOT / "README.md"), _promises(_ROOT / "docs" / "index.md")
    assert len(readme) == len(site) == 9
    # The README goes on with the reasons, which the site has a table of.
    assert [promise for promise, same in zip(readme, site, strict=True) if not promise.startswith(same[:-1])] == []


def test_every_promise_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| (I\d) \| (.*) \|$", _PROMISES.read_text(), re.MULTILINE)
    assert [name for name, _ in rows] == [f"I{number}" for number in range(1, 10)]
    missing: list[str] = []
    for _, shown_by in rows:
        text = ""
        for name in re.findall(r"`([\w/.]+)`", shown_by):
            if not name.endswith(".py"):
                missing += [] if f"def {name}(" in text else [name]
            elif (file := _ROOT / name if "/" in name else _PROMISES.with_name(name)).is_file():
                text = file.read_text()
            else:
                missing.append(name)
    assert missing == []


@pytest.mark.parametrize("page", [*_PAGES, _PROMISES], ids=lambda page: f"{page.parent.name}-{page.name}")
def test_no_line_is_longer_than_those_of_code(page: Path) -> None:
    lines = _BLOCK.sub("", page.read_text()).splitlines()
    assert [line for line in lines if len(line) > _LINE_WIDTH and not line.startswith("|")] == []


def test_every_figure_of_a_run_is_one_that_was_kept() -> None:
    page = (_ROOT / "docs" / "benchmarks.md").read_text()
    [kept] = set(_KEPT_RUN.findall(page))
    run = msgspec.json.decode((_ROOT / kept).read_bytes(), type=Run)
    measured = {figure.name: figure for part in run.parts for figure in part.figures}
    tables = page.split(_FIGURES)[1:]
    rows = [line for table in tables for line in table.partition("\n\n")[0].splitlines()]
    assert len(rows) >= 20
    for row in rows:
        name, *told = (cell.strip() for cell in row.strip("|").split("|"))
        figure = measured[name]
        goal = f"{figure.goal.sense} {number(figure.goal.bound, figure.unit)}" if figure.goal else ""
        reached = {None: "", True: "yes", False: "no"}[figure.holds]
        assert told == [number(figure.value, figure.unit), goal, reached], name


@pytest.mark.parametrize("block", _of("python"))
def test_python_runs(block: Block, tmp_path: Path) -> None:
    done = _run([sys.executable, "-P", "-c", block.text], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("block", _of("sh"))
def test_a_script_runs(block: Block, project: Path, runtime: Path) -> None:
    if block.comment.startswith(_NOT_RUN):
        _parse(block.text)
    else:
        done = _run(["bash", "-euo", "pipefail", "-c", block.text], project, runtime)
        assert done.returncode == 0, done.stderr


def _parse(script: str) -> None:
    """Refuse options and commands that do not exist; what they are given may be anywhere."""
    for line in script.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] != ["hintcell"]:
            continue
        end = next((place for place, word in enumerate(words) if word in {"|", "&", ">"}), len(words))
        context = click.Context(commands)
        name, command, rest = commands.resolve_command(context, words[1:end])
        assert command is not None, name
        with click.Context(command, info_name=name) as inner:
            command.make_parser(inner).parse_args(args=list(rest))


@pytest.mark.parametrize("block", _of("json"))
def test_json_is_json(block: Block, project: Path) -> None:
    json.loads(block.text)
    if block.comment == _PRINTS:
        done = _run(["bash", "-euo", "pipefail", "-c", block.before], project)
        assert done.stdout == block.text


@pytest.mark.parametrize("block", _of("toml"))
def test_toml_is_toml(block: Block) -> None:
    msgspec.toml.decode(block.text)


def test_the_readmes_first_example_shows_the_end_of_a_session(tmp_path: Path) -> None:
    block = next(block for block in _blocks(_ROOT / "README.md") if block.language == "python")
    done = _run([sys.executable, "-P", "-c", block.text], tmp_path)
    assert done.stdout == "config.py:1:read_config of 2\npermission_changed\n"
