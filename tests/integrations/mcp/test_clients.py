"""A real server and clients that others wrote: list, search, read on to the last page, close, and nothing is left."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.client.cli.processes import FOLLOW_DEADLINE_S, Command, wait_until
from tests.integrations.mcp import scenario
from tests.integrations.mcp.drivers import python_client, typescript_client
from tests.integrations.mcp.scenario import Driver

Start = Callable[..., AbstractContextManager[Driver]]


@pytest.fixture(params=["python", "python-legacy", "typescript"])
def start(request: pytest.FixtureRequest, command: Command) -> Iterator[Start]:
    """Starts a server and a client; at the end of the test, all processes have followed the client."""

    def started(*arguments: str) -> AbstractContextManager[Driver]:
        if request.param == "typescript":
            return typescript_client(command, arguments)
        return python_client(command, arguments, mode="legacy" if request.param == "python-legacy" else "auto")

    yield started
    wait_until(lambda: command.processes() == [], FOLLOW_DEADLINE_S)


def test_a_client_lists_searches_reads_on_to_the_last_page_and_closes(start: Start, folder: Path) -> None:
    with start("--root", str(folder)) as driver:
        scenario.tools_are_listed(driver)
        scenario.everything_is_read_and_closed(driver, scenario.names_of(open=12, secret=3))


def test_errors_reach_the_client_as_tool_errors(start: Start, folder: Path) -> None:
    with start("--root", str(folder)) as driver:
        assert "limit" in scenario.failure(driver.call("search_code", query="needle", limit=101))
        assert "search again" in scenario.failure(driver.call("more_results", session="none", cursor="none"))
        scenario.page(driver.call("search_code", query="needle"))


def test_a_client_sees_the_end_after_an_edit_of_the_policy(start: Start, folder: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    scenario.write_policy(policy, "open/**", "secret/**")
    with start("--root", str(folder), "--policy", str(policy), "--principal", "alice") as driver:
        scenario.the_end_is_seen_after_an_edit_of_the_policy(driver, policy)
