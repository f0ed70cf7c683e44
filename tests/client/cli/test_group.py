import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from hintcell.cli.group import commands

_HEAVY = ["numpy", "scipy", "sklearn", "rich", "hintcell.catalog"]


def test_every_command_in_the_help_exists_and_says_what_it_does() -> None:
    context = click.Context(commands)
    text = CliRunner().invoke(commands, ["--help"]).stdout
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None
        assert command.help
        assert f"  {name} " in text
        assert all(option.help for option in command.params if isinstance(option, click.Option))


def test_help_loads_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys; from hintcell.cli import main; status = main(['--help']);"
        f"print(status, [name for name in {_HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "0 []\n"


def test_a_search_loads_no_numpy_and_no_scikit_learn() -> None:
    script = (
        "import sys; import hintcell.cli.search, hintcell.cli.serve;"
        "print([name for name in ['numpy', 'scipy', 'sklearn'] if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("arguments", [["nosuch"], ["--nosuch"], ["search"], ["serve", "extra"]])
def test_a_wrong_call_has_status_2_and_says_how_to_get_help(arguments: list[str]) -> None:
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "--help" in result.stderr


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(commands, ["--version"], prog_name="hintcell").stdout.startswith("hintcell ")
