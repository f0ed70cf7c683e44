"""The documentation names everything that the command, its ends and its metrics have."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

from hintcell.cli.group import commands
from hintcell_manager.metrics import _families
from hintcell_manager.protocol import EndReason, ManagerOptions, Memory, RefusalReason, SessionStatus, Status

_ROOT = Path(__file__).parents[3]
_OPERATING = (_ROOT / "docs" / "operating.md").read_text()
_ALL = (_ROOT / "README.md").read_text() + "".join(page.read_text() for page in (_ROOT / "docs").glob("*.md"))


def _commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(commands)
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        yield name, command


@pytest.mark.parametrize(("name", "command"), [pytest.param(*pair, id=pair[0]) for pair in _commands()])
def test_every_command_and_option_is_documented(name: str, command: click.Command) -> None:
    assert f"hintcell {name}" in _ALL
    for option in command.params:
        if isinstance(option, click.Option):
            for flag in (*option.opts, *option.secondary_opts):
                assert re.search(rf"(?<![\w-]){flag}(?![\w-])", _ALL), flag


def test_the_options_of_the_whole_command_are_documented() -> None:
    assert "hintcell --version" in _ALL
    assert "--help" in _ALL


def test_every_reason_is_explained() -> None:
    for heading, reasons in (
        ("### Why a session ended", [*get_args(EndReason), "unknown"]),
        ("### Why an open was refused", get_args(RefusalReason)),
    ):
        section = _OPERATING.split(heading)[1].split("\n#")[0]
        assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == list(reasons)


def test_every_metric_is_documented_under_the_name_that_it_is_scraped_by() -> None:
    session = SessionStatus("s", "running", "p", (), "x", 1, 1.0, Memory("measured", 1, 1))
    status = Status(
        "i", 1, 0, 1.0, ManagerOptions(), (session,), Memory("measured", 1, 1), ended={"a": 1}, refused={"a": 1}
    )
    names = {sample.name for family in _families(status) for sample in family.samples}
    documented = set(re.findall(r"`(hintcell_\w+)", _OPERATING.split("### Metrics")[1].split("\n#")[0]))
    assert documented == names
