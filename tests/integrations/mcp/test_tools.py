"""The tools as a client of the SDK sees them, in one process: what they declare, and every failure in one line."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent, Tool

from hintcell.integrations.mcp import SearchServer
from hintcell.searches import SearchFailed
from tests.integrations.mcp.ranking import Ranking, hit

# What must not be seen anywhere but in the answer to who asked.
_SECRET = "zanzibar"

Answer = TypeVar("Answer")


def _with_client(source: Ranking, use: Callable[[Client], Awaitable[Answer]], budget: int | None = None) -> Answer:
    async def main() -> Answer:
        async with Client(SearchServer(source, folder="/srv/code", token_budget=budget)) as client:
            return await use(client)

    return anyio.run(main)


def _call(source: Ranking, tool: str, budget: int | None = None, **arguments: Any) -> CallToolResult:
    return _with_client(source, lambda client: client.call_tool(tool, arguments), budget)


def _tools() -> dict[str, Tool]:
    async def listed(client: Client) -> list[Tool]:
        return (await client.list_tools()).tools

    return {tool.name: tool for tool in _with_client(Ranking([]), listed)}


def _text(result: CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


def _failure(result: CallToolResult) -> str:
    assert result.is_error
    assert result.structured_content is None
    text = _text(result)
    assert "\n" not in text
    assert "Traceback" not in text
    assert "pydantic" not in text
    return text


def test_there_are_three_tools_and_all_are_read_only_and_of_a_closed_world() -> None:
    tools = _tools()
    assert list(tools) == ["search_code", "more_results", "close_search"]
    for tool in tools.values():
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.idempotent_hint is True
        assert tool.annotations.open_world_hint is False


def test_the_schemas_say_what_is_taken() -> None:
    tools = _tools()
    search = tools["search_code"].input_schema
    assert (search["required"], list(search["properties"])) == (["query"], ["query", "globs", "limit"])
    assert search["properties"]["limit"] | {"description": ""} == {
        "type": "integer", "minimum": 1, "maximum": 100, "default": 20, "title": "Limit", "description": "",
    }  # fmt: skip
    assert tools["more_results"].input_schema["required"] == ["session", "cursor"]
    assert tools["close_search"].input_schema["required"] == ["session"]
    for tool in tools.values():
        assert tool.input_schema["additionalProperties"] is False
        assert all(argument["description"] for argument in tool.input_schema["properties"].values())


def test_descriptions_say_where_paths_start_and_that_no_text_comes() -> None:
    description = _tools()["search_code"].description or ""
    assert "/srv/code" in description
    assert "never any text" in description


@pytest.mark.parametrize("budget", [None, 150])
def test_results_keep_to_the_output_schema(budget: int | None) -> None:
    schemas = {name: tool.output_schema for name, tool in _tools().items()}
    source = Ranking([hit(rank) for rank in range(1, 50)], {"links not followed": 3})
    first = _call(source, "search_code", budget, query="read")
    jsonschema.validate(first.structured_content, schemas["search_code"])
    assert first.structured_content is not None
    cursor = first.structured_content["next_cursor"]
    second = _call(source, "more_results", budget, session="s", cursor=cursor, limit=100)
    jsonschema.validate(second.structured_content, schemas["more_results"])
    closed = _call(source, "close_search", session="s")
    jsonschema.validate(closed.structured_content, schemas["close_search"])
    assert closed.structured_content == {"closed": True}


def test_a_result_has_what_the_search_found_and_nothing_else() -> None:
    source = Ranking([hit(1), hit(2)], {"links not followed": 3})
    result = _call(source, "search_code", query="read", globs=["*.py"], limit=1)
    content = result.structured_content
    assert content is not None
    assert content["hits"] == [
        {"rank": 1, "id": "a/b.py:1:Reader.read", "path": "a/b.py", "line": 1, "name": "Reader.read", "score": 1.5}
    ]
    assert {key: content[key] for key in ("session", "total", "snapshot_id", "left_out")} == {
        "session": "s", "total": 2, "snapshot_id": "snapshot", "left_out": {"links not followed": 3},
    }  # fmt: skip
    assert source.asked == [("read", ("*.py",), 1)]
    assert _text(result).splitlines()[0] == "a/b.py:1 Reader.read"


def test_the_budget_cuts_a_page() -> None:
    source = Ranking([hit(rank) for rank in range(1, 50)])
    content = _call(source, "search_code", 300, query="read", limit=40).structured_content
    assert content is not None
    assert 1 < len(content["hits"]) < 40
    assert content["next_cursor"]


def test_a_search_that_fails_is_a_tool_error_with_its_own_words() -> None:
    source = Ranking([hit(1)])
    source.failure = SearchFailed("permission_changed", "this search has ended: permission_changed:\nsearch again")
    expected = "this search has ended: permission_changed: search again"
    assert _failure(_call(source, "search_code", query="read")) == expected


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("search_code", {}, "query: Field required"),
        ("search_code", {"query": 7}, "query: Input should be a valid string"),
        ("search_code", {"query": "a", "limit": 0}, "limit: Input should be greater than or equal to 1"),
        ("search_code", {"query": "a", "limit": 101}, "limit: Input should be less than or equal to 100"),
        ("search_code", {"query": "a", "globs": [1]}, "globs.0: Input should be a valid string"),
        ("search_code", {"query": "a", "glob": "*.py"}, "search_code takes query, globs, limit"),
        ("more_results", {"session": "s", "cursor": "x" * 300}, "cursor: String should have at most 256 characters"),
        ("more_results", {"session": "s", "cursor": "x"}, "no such cursor"),
        ("more_results", {"session": "other", "cursor": "x"}, "no such search"),
        ("read_file", {"path": "a"}, "use one of search_code, more_results, close_search"),
    ],
)
def test_bad_arguments_are_a_tool_error_in_one_line(tool: str, arguments: dict[str, Any], said: str) -> None:
    assert said in _failure(_call(Ranking([hit(1)]), tool, **arguments))


def test_a_bug_is_a_tool_error_without_what_it_says() -> None:
    source = Ranking([hit(1)])
    source.failure = KeyError(_SECRET)
    said = _failure(_call(source, "search_code", query=_SECRET))
    assert said.startswith("internal error, please report it: KeyError at ranking.py:")
    assert _SECRET not in said


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.DEBUG):
        source = Ranking([hit(1, _SECRET)])
        for arguments in ({"query": _SECRET}, {"query": _SECRET, "limit": _SECRET}, {_SECRET: _SECRET}):
            _call(source, "search_code", **arguments)
        source.failure = KeyError(_SECRET)
        _call(source, "search_code", query=_SECRET)
        source.failure = SearchFailed("refused", _SECRET)
        _call(source, "search_code", query=_SECRET)
    assert _SECRET not in caplog.text
    assert capfd.readouterr() == ("", "")
