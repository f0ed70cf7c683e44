"""Real processes that leave nothing behind, and a directory with a name short enough for sockets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.cli.processes import Command


@pytest.fixture
def command() -> Iterator[Command]:
    """Calls `hintcell`; kills what is left at the end."""
    command = Command()
    yield command
    for process in command.processes():
        process.kill()


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hc-") as name:
        yield Path(name)
