"""What every client does: list the tools, search, read on to the last page, and close. Each has a driver of its own."""

from pathlib import Path
from typing import Any, Protocol

from tests.client.cli.processes import FOLLOW_DEADLINE_S, wait_until
from tests.integrations.mcp.conftest import TEXT


class Driver(Protocol):
    """A client in any language; results are as they are on the wire."""

    def list_tools(self) -> Any: ...

    def call(self, tool: str, **arguments: Any) -> Any: ...


def tools_are_listed(driver: Driver) -> None:
    tools = {tool["name"]: tool for tool in driver.list_tools()["tools"]}
    assert list(tools) == ["search_code", "more_results", "close_search"]
    for tool in tools.values():
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert tool["annotations"]["readOnlyHint"] is True
        assert tool["annotations"]["openWorldHint"] is False


def page(result: Any) -> Any:
    """The structured page, of which the text has the same places and neither has anything of the files."""
    assert not result.get("isError"), result
    content = result["structuredContent"]
    [block] = result["content"]
    for hit in content["hits"]:
        assert f"{hit['path']}:{hit['line']} {hit['name']}" in block["text"].splitlines()
    assert TEXT not in str(result)
    return content


def failure(result: Any) -> str:
    assert result["isError"] is True
    [block] = result["content"]
    text: str = block["text"]
    assert "\n" not in text
    return text


def everything_is_read_and_closed(driver: Driver, names: set[str]) -> None:
    """A search finds exactly the functions of these names, on pages of four; then it is closed."""
    pages = [page(driver.call("search_code", query="needle", limit=4))]
    session = pages[0]["session"]
    while (cursor := pages[-1]["next_cursor"]) is not None:
        pages.append(page(driver.call("more_results", session=session, cursor=cursor, limit=4)))
    hits = [hit for one in pages for hit in one["hits"]]
    assert len(pages) == -(-len(names) // 4)
    assert [hit["rank"] for hit in hits] == list(range(1, len(names) + 1))
    assert {hit["name"] for hit in hits} == names
    assert {one["total"] for one in pages} == {len(names)}
    assert driver.call("close_search", session=session)["structuredContent"] == {"closed": True}
    said = failure(driver.call("more_results", session=session, cursor=pages[0]["next_cursor"]))
    assert "closed" in said
    assert said.endswith("search again")


def names_of(**counts: int) -> set[str]:
    return {f"{name}_{number:02}" for name, count in counts.items() for number in range(count)}


def write_policy(path: Path, *allowed: str, principal: str = "alice") -> None:
    """Let the principal read what is allowed; the file is replaced in one step."""
    new = path.with_suffix(".new")
    new.write_text(f"[principals.{principal}]\nallow = {list(allowed)}\n[principals.bob]\nallow = ['**']\n")
    new.replace(path)


def ends(driver: Driver, session: str, cursor: str) -> str:
    """What the error says, once the search has ended."""
    wait_until(
        lambda: bool(driver.call("more_results", session=session, cursor=cursor).get("isError")), FOLLOW_DEADLINE_S
    )
    return failure(driver.call("more_results", session=session, cursor=cursor))


def the_end_is_seen_after_an_edit_of_the_policy(driver: Driver, policy: Path) -> None:
    """The policy takes `secret` away: the search over both ends, and a new one finds `open` alone."""
    before = page(driver.call("search_code", query="needle", limit=4))
    assert before["total"] == len(names_of(open=12, secret=3))
    write_policy(policy, "open/**")
    everything_is_read_and_closed(driver, names_of(open=12))  # At once, whether the edit was seen or not.
    said = ends(driver, before["session"], before["next_cursor"])
    assert "permission_changed" in said
    assert said.endswith("search again")
    everything_is_read_and_closed(driver, names_of(open=12))
