"""`hintcell serve` and `keys` up to the process that they become."""

import os
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from hintcell.cli.group import commands
from hintcell.cli.serve import command
from hintcell_manager.protocol import ManagerOptions


class _BecameError(Exception):
    pass


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that the manager's command got."""
    arguments: list[str] = []

    def execv(executable: str, given: list[str]) -> None:
        assert executable == sys.executable
        assert given[:4] == [sys.executable, "-P", "-m", "hintcell_manager"]
        arguments.extend(given[4:])
        raise _BecameError

    monkeypatch.setattr(os, "execv", execv)
    return arguments


def _options(became: list[str]) -> ManagerOptions:
    text = next(part.removeprefix("--options=") for part in became if part.startswith("--options="))
    return msgspec.json.decode(text, type=ManagerOptions)


def test_without_options_the_manager_runs_with_its_defaults(became: list[str], tmp_path: Path) -> None:
    CliRunner().invoke(commands, ["serve", "--directory", str(tmp_path)])
    assert became[:2] == ["serve", f"--directory={tmp_path}"]
    assert _options(became) == ManagerOptions()


def test_every_option_of_a_manager_can_be_given(became: list[str]) -> None:
    given = {
        "--idle-timeout": "600",
        "--lifetime": "3600.5",
        "--ranking-deadline": "none",
        "--max-sessions": "300",
        "--max-sessions-per-principal": "3",
        "--memory-limit": "64MiB",
        "--memory-budget": "1.5 GB",
        "--open-wait": "2",
        "--sample-interval": "0.5",
        "--template-max-forks": "NONE",
        "--template-max-age": "60",
        "--launcher": "exec",
    }
    CliRunner().invoke(commands, ["serve", *(part for pair in given.items() for part in pair)])
    assert _options(became) == ManagerOptions(
        600.0, 3600.5, None, 300, 3, 64 * 1024**2, 1_500_000_000, 2.0, 0.5, None, 60.0, "exec"
    )
    fields = {field.name for field in msgspec.structs.fields(ManagerOptions)}
    assert fields <= {parameter.name for parameter in command.params}
    assert len(given) == len(fields)


def test_the_help_tells_every_default() -> None:
    text = " ".join(CliRunner().invoke(commands, ["serve", "--help"]).stdout.split())
    assert text.count("[default: (no limit)]") == 6
    for default in ("60", "5", "1", "5000", "3600", "template"):
        assert f"[default: {default}]" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["--idle-timeout", "0"],
        ["--idle-timeout", "nan"],
        ["--lifetime", "inf"],
        ["--lifetime", "-1"],
        ["--lifetime", "2000001"],
        ["--open-wait", "none"],
        ["--max-sessions", "1.5"],
        ["--max-sessions", "9" * 5_000],
        ["--memory-limit", "64 apples"],
        ["--memory-limit", "64iB"],
        ["--memory-limit", "9" * 400],
        ["--launcher", "fork"],
        ["--control", "tcp://127.0.0.1:1"],
        ["--keys", "/tmp"],
    ],
)
def test_what_makes_no_sense_is_a_wrong_call(became: list[str], arguments: list[str]) -> None:
    result = CliRunner().invoke(commands, ["serve", *arguments])
    assert result.exit_code == 2
    assert arguments[0] in result.stderr
    assert became == []


def test_endpoints_are_handed_on(became: list[str], tmp_path: Path) -> None:
    CliRunner().invoke(
        commands,
        ["serve", "--control", "tcp://127.0.0.1:1", "--keys", str(tmp_path), "--metrics", "127.0.0.1:2"],
    )
    assert became[-3:] == ["--control=tcp://127.0.0.1:1", f"--keys={tmp_path}", "--metrics=127.0.0.1:2"]


def test_keys_are_made_by_the_manager(became: list[str]) -> None:
    CliRunner().invoke(commands, ["keys", "--", "-dir"])
    assert became == ["keys", "--", "-dir"]


def test_keys_of_a_client_have_a_role(became: list[str]) -> None:
    CliRunner().invoke(commands, ["keys", "dir", "--client", "ops", "--role", "revoke"])
    assert became == ["keys", "--client=ops", "--role=revoke", "--", "dir"]


def test_a_role_without_a_client_is_a_wrong_call(became: list[str]) -> None:
    result = CliRunner().invoke(commands, ["keys", "dir", "--role", "revoke"])
    assert result.exit_code == 2
    assert became == []


def test_an_interpreter_that_is_gone_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    result = CliRunner().invoke(commands, ["serve"])
    assert result.exit_code == 1
    assert "cannot start /nonexistent/python: No such file" in result.stderr
