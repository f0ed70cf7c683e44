"""Clients that a test may break: each starts its own manager and template, which takes over a second."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client
from tests.client.searches import search, short_directory
from tests.faults.patches import Patches
from tests.faults.processes import adopted_orphans

__all__ = ["adopted_orphans"]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty directory in which private managers make theirs; nothing may be left in it."""
    with short_directory() as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
        yield path
        assert list(path.iterdir()) == []


@pytest.fixture
def client(runtime: Path) -> Iterator[Client]:
    """A client whose template is ready."""
    with Client() as client:
        search(client, client.grant("warm")).close()
        yield client


@pytest.fixture(scope="session")
def shared_client() -> Iterator[Client]:
    """One for the tests whose manager survives."""
    with Client() as client:
        yield client


@pytest.fixture
def directory() -> Iterator[Path]:
    """A new directory with a path short enough for sockets."""
    with short_directory() as path:
        yield path


@pytest.fixture
def patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patches:
    """Changes to the managers and templates that the test starts."""
    return Patches(tmp_path, monkeypatch)
