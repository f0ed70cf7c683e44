"""What importing hintcell costs an agent: nothing is loaded, started or opened."""

import subprocess
import sys

from tests.client.searches import START_S


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=START_S,
    ).stdout


def test_importing_hintcell_loads_neither_numpy_nor_scikit_learn() -> None:
    assert (
        run(
            "import sys, hintcell\n"
            "print(sorted({name.partition('.')[0] for name in sys.modules} & {'numpy', 'scipy', 'sklearn'}))"
        )
        == "[]\n"
    )


def test_importing_hintcell_starts_no_thread_and_opens_no_descriptor() -> None:
    assert (
        run(
            "import os\n"
            "before = len(os.listdir('/proc/self/fd'))\n"
            "import hintcell\n"
            "print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')) - before)"
        )
        == "1 0\n"
    )


def test_a_search_loads_neither_numpy_nor_scikit_learn_into_the_agent() -> None:
    assert (
        run(
            "import sys\n"
            "from hintcell import Client, Document\n"
            "with Client() as client:\n"
            "    grant = client.grant('alice')\n"
            "    with client.open(grant, snapshot_id='s', query='a', documents=[Document('a', 'a')]) as session:\n"
            "        assert list(session)[0].total == 1\n"
            "print(sorted({name.partition('.')[0] for name in sys.modules} & {'numpy', 'scipy', 'sklearn'}))"
        )
        == "[]\n"
    )


def test_neither_the_package_nor_any_command_loads_an_agents_framework() -> None:
    assert (
        run(
            "import sys, hintcell, click\n"
            "from hintcell.cli.group import commands\n"
            "for name in commands.list_commands(click.Context(commands)):\n"
            "    assert commands.get_command(click.Context(commands), name) is not None\n"
            "loaded = {name.partition('.')[0] for name in sys.modules}\n"
            "print(sorted(loaded & {'anyio', 'mcp', 'mcp_types', 'pydantic', 'starlette', 'uvicorn'}))"
        )
        == "[]\n"
    )
