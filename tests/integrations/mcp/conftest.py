"""A folder to search, and real processes that leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.cli.processes import FOLLOW_DEADLINE_S, Command, wait_until

# What stands in the searched files and must not stand in an answer.
TEXT = "a_text_that_is_never_sent"


@pytest.fixture
def command() -> Iterator[Command]:
    """Marks what is started; at the end nothing may be left of it."""
    command = Command()
    yield command
    try:
        wait_until(lambda: command.processes() == [], FOLLOW_DEADLINE_S)
    finally:
        for process in command.processes():
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two folders of functions, of which all match `needle`: twelve in `open`, three in `secret`."""
    for name, count in (("open", 12), ("secret", 3)):
        place = tmp_path / "root" / name
        place.mkdir(parents=True)
        (place / "code.py").write_text(
            "".join(f"def {name}_{number:02}():\n    return 'needle', '{TEXT}'\n" for number in range(count))
        )
    return tmp_path / "root"
