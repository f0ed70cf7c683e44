"""One client for all tests that leave its manager and template alone: starting them takes over a second.

A test keeps its sessions to itself by a principal of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from hintcell import Client, Grant
from tests.client.asynchronous import BlockingAsyncClient
from tests.client.searches import short_directory


@pytest.fixture(
    scope="session", params=[pytest.param(Client, id="blocking"), pytest.param(BlockingAsyncClient, id="asyncio")]
)
def client_type(request: pytest.FixtureRequest) -> type[Client]:
    """The client under test; what is special to asyncio is in `test_async_client`."""
    return cast(type[Client], request.param)


@pytest.fixture(scope="session")
def client(client_type: type[Client]) -> Iterator[Client]:
    with client_type() as client:
        yield client


@pytest.fixture
def principal(request: pytest.FixtureRequest) -> str:
    """A principal that no other test has."""
    return str(request.node.nodeid)


@pytest.fixture
def grant(client: Client, principal: str) -> Grant:
    return client.grant(principal)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A new directory with a path short enough for sockets."""
    with short_directory() as path:
        yield path
