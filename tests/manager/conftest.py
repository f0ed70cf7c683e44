"""What the tests of the manager share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.places import short_directory
from tests.manager.template_process import TemplateProcess, a_template


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory whose sockets have short paths."""
    with short_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def template() -> Iterator[TemplateProcess]:
    """A template for all tests of a module: it takes a second to load."""
    with a_template() as template:
        yield template
