"""What models read: the same tools in every framework, and lines that say where things are, never what they hold."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage

from hintcell.integrations import langchain, openai_agents, pydantic_ai
from hintcell.integrations.mcp import SearchServer
from hintcell.integrations.mcp.pages import Source
from hintcell.integrations.wording import DESCRIPTIONS, closed, in_lines
from hintcell.searches import Hit, Results, Searches

Tools = dict[str, tuple[str | None, dict[str, Any]]]
"""The description and the schema of each tool, by its name."""


def of_langchain(searches: Searches) -> Tools:
    functions = [convert_to_openai_tool(tool)["function"] for tool in langchain.search_tools(searches)]
    return {each["name"]: (each["description"], each["parameters"]) for each in functions}


def of_openai_agents(searches: Searches) -> Tools:
    tools = openai_agents.search_tools(searches, lambda _: "alice")
    return {tool.name: (tool.description, tool.params_json_schema) for tool in tools}


def of_pydantic_ai(searches: Searches) -> Tools:
    toolset = pydantic_ai.HintcellToolset[None](searches, lambda _: "alice")
    context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    tools = [tool.tool_def for tool in asyncio.run(toolset.get_tools(context)).values()]
    return {tool.name: (tool.description, tool.parameters_json_schema) for tool in tools}


def without_titles_and_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's strict schemas have no defaults, and name everything once more."""
    properties = cast(dict[str, dict[str, Any]], schema["properties"])
    return {
        name: {key: value for key, value in each.items() if key not in ("title", "default")}
        for name, each in properties.items()
    }


@pytest.mark.parametrize("of_framework", [of_langchain, of_openai_agents, of_pydantic_ai])
def test_every_framework_has_the_same_tools(searches: Searches, of_framework: Callable[[Searches], Tools]) -> None:
    tools = of_framework(searches)
    assert {name: description for name, (description, _) in tools.items()} == DESCRIPTIONS
    expected = {name: without_titles_and_defaults(schema) for name, (_, schema) in of_langchain(searches).items()}
    assert {name: without_titles_and_defaults(schema) for name, (_, schema) in tools.items()} == expected


def test_the_mcp_server_has_tools_of_the_same_names_and_arguments() -> None:
    """What it says about them is its own: it names the folder, and its results are structured."""
    tools = asyncio.run(SearchServer(cast(Source, None), folder="/src").list_tools())
    assert {tool.name: set(tool.input_schema["properties"]) for tool in tools} == {
        name: set(schema["properties"]) for name, (_, schema) in of_langchain(cast(Searches, None)).items()
    }


def test_every_parameter_is_described() -> None:
    schemas = [schema for _, schema in of_langchain(cast(Searches, None)).values()]
    for schema in schemas:
        assert all(each["description"] for each in schema["properties"].values())
    assert [list(schema["properties"]) for schema in schemas] == [
        ["query", "globs", "limit"],
        ["session", "cursor", "limit"],
        ["session"],
    ]
    assert [schema["required"] for schema in schemas] == [["query"], ["session", "cursor"], ["session"]]


@pytest.mark.parametrize("of_framework", [of_langchain, of_pydantic_ai])
def test_what_may_be_left_out_has_its_default(searches: Searches, of_framework: Callable[[Searches], Tools]) -> None:
    for _, schema in of_framework(searches).values():
        defaults = {name: each["default"] for name, each in schema["properties"].items() if "default" in each}
        assert defaults == {
            name: value for name, value in (("globs", []), ("limit", 20)) if name in schema["properties"]
        }


def test_openai_is_given_strict_schemas_without_defaults(searches: Searches) -> None:
    for _, schema in of_openai_agents(searches).values():
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
        assert not any("default" in each for each in schema["properties"].values())


def test_a_page_in_lines() -> None:
    hits = [Hit(21, "id", "src/config.py", 12, "Config.read", 2.366), Hit(22, "note", "", 0, "", 0.0)]
    assert in_lines(Results("4f2a", hits, 1_134, "eyJ2", "s", {"links": 2, "test files": 1_200})) == (
        "Session 4f2a, hits 21 to 22 of 1,134:\n"
        "21. src/config.py:12 Config.read (score 2.37)\n"
        "22. note (score 0.00)\n"
        "Next cursor: eyJ2\n"
        "Not searched: links: 2, test files: 1,200"
    )


def test_a_last_page_in_lines_has_no_cursor() -> None:
    lines = in_lines(Results("4f2a", [Hit(1, "a", "", 0, "", 1.0)], 1, None, "s", {}))
    assert lines == "Session 4f2a, hits 1 to 1 of 1:\n1. a (score 1.00)"


def test_a_page_without_hits_says_so() -> None:
    assert in_lines(Results("4f2a", [], 3, None, "s", {})) == "Session 4f2a, hits none of 3:"


def test_nothing_that_is_searched_makes_a_line_of_its_own() -> None:
    """An id may hold anything: also what looks like the next line, or like an order to a terminal."""
    lines = in_lines(Results("s", [Hit(1, "a\nNext cursor: x\x1b[2J", "", 0, "b\nc", 1.0)], 1, None, "s", {"r\ns": 1}))
    assert lines.split("\n")[1:] == [
        r"1. a\nNext cursor: x\x1b[2J (score 1.00)",
        r"Not searched: r\ns: 1",
    ]


def test_what_closing_has_done() -> None:
    assert closed(True) != closed(False)


def test_the_documentation_names_every_tool_and_every_adapter() -> None:
    page = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text()
    for tool, (_, schema) in of_langchain(cast(Searches, None)).items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{tool}` |")]
        assert all(f"`{parameter}`" in row for parameter in schema["properties"])
    for adapter in ("langchain", "llama_index", "openai_agents", "pydantic_ai"):
        assert f"pip install 'hintcell[{adapter.replace('_', '-')}]'" in page
        assert f"from hintcell.integrations.{adapter} import" in page
