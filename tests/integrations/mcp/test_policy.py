"""A server under a policy: what may be searched, what an edit ends, and what a broken policy lets through (nothing)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.cli.processes import EVENT_DEADLINE_S, FOLLOW_DEADLINE_S, Command, wait_until
from tests.integrations.mcp import scenario
from tests.integrations.mcp.wire import Wire


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    scenario.write_policy(path, "open/**", "secret/**")
    return path


@pytest.fixture
def wire(command: Command, folder: Path, policy: Path) -> Iterator[Wire]:
    wire = Wire(command, "--root", folder, "--policy", policy, "--principal", "alice")
    yield wire
    assert wire.rest(EVENT_DEADLINE_S) == (0, b"", "")


def _paths(result: Any) -> set[str]:
    return {hit["path"] for hit in scenario.page(result)["hits"]}


def test_only_what_is_allowed_is_searched_and_the_rest_is_not_even_counted(
    command: Command, folder: Path, policy: Path
) -> None:
    scenario.write_policy(policy, "open/**")
    (folder / "secret" / "broken.py").write_text("def (")
    (folder / "secret" / "empty.py").write_text("")
    under = Wire(command, "--root", folder, "--policy", policy, "--principal", "alice")
    found = scenario.page(under.call("search_code", query="needle secret", limit=100))
    (folder / "secret").rename(folder.parent / "elsewhere")
    without = Wire(command, "--root", folder)
    expected = scenario.page(without.call("search_code", query="needle secret", limit=100))
    assert {key: found[key] for key in found if key != "session"} == {
        key: expected[key] for key in expected if key != "session"
    }
    for wire in (under, without):
        wire.rest(EVENT_DEADLINE_S)


def test_an_edit_for_others_ends_nothing(wire: Wire, policy: Path) -> None:
    page = wire.search()
    policy.write_text(policy.read_text().replace("allow = ['**']", "allow = ['open/**']"))
    scenario.write_policy(policy.with_name("other.toml"), "open/**")  # An edit of another file neither.
    seen = wire.search()  # Reads the policy after the edit.
    for _ in range(20):
        more = wire.call("more_results", session=page["session"], cursor=page["next_cursor"])
        assert scenario.page(more)["session"] == page["session"]
    assert seen["total"] == page["total"]


def test_a_search_right_after_an_edit_is_not_ended_by_it(wire: Wire, policy: Path) -> None:
    for allowed in ("open/**", "secret/**", "**"):
        old = wire.search()
        scenario.write_policy(policy, allowed)
        new = wire.search()
        scenario.ends(wire, old["session"], old["next_cursor"])
        more = wire.call("more_results", session=new["session"], cursor=new["next_cursor"], limit=100)
        assert len(scenario.page(more)["hits"]) == new["total"] - 2


def test_a_broken_policy_ends_the_searches_and_serves_nothing_until_it_is_mended(wire: Wire, policy: Path) -> None:
    page = wire.search()
    policy.write_text("[principals.alice\n")
    said = scenario.failure(wire.call("search_code", query="needle"))  # At once, whether the edit was seen or not.
    assert "policy" in said
    assert "TOML" in said
    assert "permission_changed" in scenario.ends(wire, page["session"], page["next_cursor"])
    assert "policy" in scenario.failure(wire.call("search_code", query="needle"))
    scenario.write_policy(policy, "open/**")
    assert _paths(wire.call("search_code", query="needle")) == {"open/code.py"}


def test_a_policy_that_is_gone_serves_nothing(wire: Wire, policy: Path) -> None:
    page = wire.search()
    policy.unlink()
    assert "policy" in scenario.failure(wire.call("search_code", query="needle"))
    assert "permission_changed" in scenario.ends(wire, page["session"], page["next_cursor"])


def test_a_policy_that_is_broken_at_the_start_is_a_tool_error(command: Command, folder: Path, policy: Path) -> None:
    policy.write_text("nonsense = 1\n")
    wire = Wire(command, "--root", folder, "--policy", policy)
    assert "policy" in scenario.failure(wire.call("search_code", query="needle"))
    assert wire.rest(EVENT_DEADLINE_S) == (0, b"", "")


def test_whom_no_rule_names_reads_nothing(command: Command, folder: Path, policy: Path) -> None:
    wire = Wire(command, "--root", folder, "--policy", policy, "--principal", "mallory")
    assert "read nothing" in scenario.failure(wire.call("search_code", query="needle"))
    wire.rest(EVENT_DEADLINE_S)


def test_allowed_files_that_are_not_there_are_a_tool_error(wire: Wire, policy: Path) -> None:
    scenario.write_policy(policy, "nowhere/**")
    scenario.failure(wire.call("search_code", query="needle"))


def test_after_its_manager_was_killed_the_policy_is_watched_again(command: Command, wire: Wire, policy: Path) -> None:
    wire.search()
    for process in command.processes():
        if process.pid != wire.process.pid:
            process.kill()
    page = wire.search()
    scenario.write_policy(policy, "open/**")
    assert "permission_changed" in scenario.ends(wire, page["session"], page["next_cursor"])


def test_globs_narrow_and_those_of_the_model_do_not_widen(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder, "--glob", "open/**")
    assert _paths(wire.call("search_code", query="needle")) == {"open/code.py"}
    assert _paths(wire.call("search_code", query="needle", globs=["*.py"])) == {"open/code.py"}
    scenario.failure(wire.call("search_code", query="needle", globs=["secret/**"]))
    assert "use globs such as" in scenario.failure(wire.call("search_code", query="needle", globs=["!"]))
    wire.rest(EVENT_DEADLINE_S)


def test_the_processes_of_an_ended_search_are_dead(command: Command, wire: Wire, policy: Path) -> None:
    page = wire.search()
    assert command.has("worker")
    scenario.write_policy(policy, "open/**")
    scenario.ends(wire, page["session"], page["next_cursor"])
    wait_until(lambda: not command.has("worker"), FOLLOW_DEADLINE_S)
