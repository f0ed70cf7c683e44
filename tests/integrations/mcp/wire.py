"""`hintcell mcp` as a real process, spoken to line by line, for what a client library does not do."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.client.cli.processes import Command

START = (sys.executable, "-P", "-m", "hintcell.cli", "mcp")


class Wire:
    """A server and its two pipes; the handshake of 2025-06-18 is done when it is made."""

    def __init__(self, command: Command, *arguments: str | os.PathLike[str], start: Sequence[str] = START) -> None:
        self.process = subprocess.Popen(
            [*start, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | command.environment,
        )
        self._number = 0
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.ask("initialize", **client)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, **parameters: Any) -> int:
        """Ask, and do not wait for the answer."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        return self._number

    def ask(self, method: str, **parameters: Any) -> Any:
        """The result; every line on the way there is a message of the protocol."""
        number = self.begin(method, **parameters)
        assert self.process.stdout is not None
        while True:
            message = json.loads(self.process.stdout.readline())
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == number:
                return message["result"]

    def list_tools(self) -> Any:
        return self.ask("tools/list")

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def search(self, query: str = "needle") -> Any:
        return self.call("search_code", query=query, limit=2)["structuredContent"]

    def rest(self, timeout_s: float) -> tuple[int, bytes, str]:
        """Exit status, what else it wrote to standard output, and standard error, after its end."""
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        finally:
            self.process.kill()
        return self.process.returncode, out, err.decode()
