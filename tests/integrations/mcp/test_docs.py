"""The examples of docs/mcp.md are JSON, start the command that there is, and look like its results."""

import json
import re
from pathlib import Path

import click
import jsonschema

from hintcell.cli.mcp import command as mcp
from hintcell.integrations.mcp.pages import SearchPage

_ROOT = Path(__file__).parents[3]
_PAGE = (_ROOT / "docs" / "mcp.md").read_text()
_EXAMPLES = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)]


def _parsed(words: list[str]) -> click.Context:
    """The command line as the command takes it, but for whether its folders are there."""
    assert words[:2] == ["hintcell", "mcp"]
    there = [word.replace("/home/alice/project", str(_ROOT)) for word in words[2:]]
    return mcp.make_context("mcp", there)


def test_the_configuration_starts_a_server() -> None:
    [server] = _EXAMPLES[0]["mcpServers"].values()
    assert _parsed([server["command"], *server["args"]]).params["root"] == _ROOT


def test_every_command_line_is_one_that_the_command_takes() -> None:
    lines = re.findall(r"^    .*\b(hintcell mcp .*)$", _PAGE, re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        _parsed(line.split())


def test_the_page_is_of_the_declared_schema() -> None:
    jsonschema.validate(_EXAMPLES[1], SearchPage.model_json_schema())


def test_the_table_has_every_option_and_its_default() -> None:
    table = _PAGE.split("## Options")[1].split("\n#")[0]
    for option in mcp.params:
        assert option.opts[0] in table
    assert {option.name: option.default for option in mcp.params}["max_sessions"] == "16"
    assert "| 16 |" in table
    assert "| 900 |" in table
