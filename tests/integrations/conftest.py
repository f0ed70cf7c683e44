"""One client for all adapters' tests; a test keeps its sessions to itself by a principal of its own."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from hintcell import Client
from hintcell.searches import Searches
from tests.integrations.reading import everything

# No framework reports to anybody from a test.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    with Client() as client:
        yield client


@pytest.fixture
def searches(client: Client) -> Iterator[Searches]:
    with Searches(client, everything) as searches:
        yield searches


@pytest.fixture
def principal(request: pytest.FixtureRequest) -> str:
    """A principal that no other test has."""
    return str(request.node.nodeid)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def loop() -> Iterator[None]:
    """The loop that a framework's `run_sync` finds, closed afterwards; one that it makes itself stays open."""
    with asyncio.Runner() as runner:
        asyncio.set_event_loop(runner.get_loop())
        yield
        asyncio.set_event_loop(None)
