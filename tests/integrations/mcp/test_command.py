"""`hintcell mcp` as a command: what it refuses, what it needs, what it says, and HTTP."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import psutil
import pytest
from mcp import Client

from tests.client.cli.processes import EVENT_DEADLINE_S, Command, role_of, wait_until
from tests.integrations.mcp.wire import START, Wire


def _refused(command: Command, *arguments: str) -> str:
    status, out, err = command.run("mcp", *arguments)
    assert (status, out) == (2, b"")
    return err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--token-budget", "0"], "whole number above 0"),
        (["--max-sessions", "none"], "whole number above 0"),
        (["--principal", " "], "name who will read"),
        (["--root", "/nonexistent"], "does not exist"),
        (["--max-documents", "99999999"], "max"),
        (["--directory", "d", "--idle-timeout", "5"], "is for a private manager"),
        (["--http", "x"], "PORT or HOST:PORT"),
        (["--http", "65536"], "PORT or HOST:PORT"),
        (["--http", "0.0.0.0:0"], "--allow-remote"),
        (["--http", "[::]:0"], "--allow-remote"),
        (["--http", "127.0.0.2:0"], "--allow-remote"),
        (["--http", "example.org:80"], "--allow-remote"),
    ],
)
def test_what_makes_no_sense_is_refused(command: Command, arguments: list[str], said: str) -> None:
    assert said in _refused(command, *arguments)


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['mcp'] = None; from hintcell.cli import main; sys.exit(main(['mcp']))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=EVENT_DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "hintcell: this needs a library that is not installed: pip install 'hintcell[mcp]'\n"


def test_nothing_of_a_call_is_on_standard_error(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder)
    wire.search("needle")
    for arguments in ({"query": "needle", "limit": "needle"}, {"needle": 1}, {"query": " "}):
        assert wire.call("search_code", **arguments)["isError"]
    wire.call("more_results", session="needle", cursor="needle")
    wire.call("needle")
    wire.send({"jsonrpc": "2.0", "method": "needle", "params": {"needle": 1}})
    assert wire.rest(EVENT_DEADLINE_S) == (0, b"", "")


def test_a_shared_manager_that_is_not_there_is_a_tool_error(command: Command, folder: Path, tmp_path: Path) -> None:
    wire = Wire(command, "--root", folder, "--directory", tmp_path / "none")
    result = wire.call("search_code", query="needle")
    assert result["isError"]
    assert "no manager serves" in result["content"][0]["text"]
    assert wire.rest(EVENT_DEADLINE_S) == (0, b"", "")


def test_the_folder_is_read_at_each_search(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder)
    before = wire.search()
    (folder / "new.py").write_text("def fresh():\n    return 'brandnew'\n")
    after = wire.search("brandnew")
    assert after["hits"][0]["path"] == "new.py"
    assert after["snapshot_id"] != before["snapshot_id"]
    wire.rest(EVENT_DEADLINE_S)


def test_a_folder_over_the_limits_is_a_tool_error_with_the_counts(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder, "--max-documents", "5")
    result = wire.call("search_code", query="needle")
    assert result["isError"]
    assert "15" in result["content"][0]["text"]
    assert "\n" not in result["content"][0]["text"]
    wire.rest(EVENT_DEADLINE_S)


def test_more_searches_than_allowed_close_the_longest_unused(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder, "--max-sessions", "1")
    first, second = wire.search(), wire.search()
    more = wire.call("more_results", session=first["session"], cursor=first["next_cursor"])
    assert more["isError"]
    assert more["content"][0]["text"].endswith("search again")
    more = wire.call("more_results", session=second["session"], cursor=second["next_cursor"])
    assert not more.get("isError")
    wire.rest(EVENT_DEADLINE_S)


def test_many_searches_leave_no_more_open_than_allowed(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder, "--max-sessions", "2")
    server = psutil.Process(wire.process.pid)
    for _ in range(3):
        wire.search()
    open_files = server.num_fds()
    for _ in range(20):
        wire.search()
    assert server.num_fds() == open_files
    wait_until(lambda: [role_of(process) for process in command.processes()].count("worker") == 2)
    wire.rest(EVENT_DEADLINE_S)


@pytest.fixture
def http(command: Command, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [*START, "--root", folder, "--http", "0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | command.environment,
    ) as process:
        yield process
        process.kill()


def test_over_http(http: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert http.stderr is not None
    url = http.stderr.readline().split()[-1]
    assert url.startswith("http://127.0.0.1:")

    async def use() -> list[str]:
        async with Client(url) as client:
            page = (await client.call_tool("search_code", {"query": "needle", "limit": 4})).structured_content
            assert page is not None
            arguments = {"session": page["session"], "cursor": page["next_cursor"], "limit": 100}
            rest = (await client.call_tool("more_results", arguments)).structured_content
            assert rest is not None
            return [hit["name"] for hit in page["hits"] + rest["hits"]]

    assert len(set(anyio.run(use))) == 15
    http.send_signal(signal.SIGTERM)
    assert http.communicate(timeout=EVENT_DEADLINE_S) == ("", "")
    assert http.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("name", "value", "status"), [("Host", "evil.example", 421), ("Origin", "http://evil.example", 403)]
)
def test_a_web_page_does_not_reach_it(http: "subprocess.Popen[str]", name: str, value: str, status: int) -> None:
    assert http.stderr is not None
    address = urlsplit(http.stderr.readline().split()[-1])
    connection = HTTPConnection(address.hostname or "", address.port, timeout=EVENT_DEADLINE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/mcp", b"{}", {name: value, "Content-Type": "application/json"})
        assert connection.getresponse().status == status


def test_a_port_that_is_taken_is_said(http: "subprocess.Popen[str]", command: Command) -> None:
    assert http.stderr is not None
    port = http.stderr.readline().split(":")[-1].partition("/")[0]
    status, _, err = command.run("mcp", "--http", port)
    assert (status, err) == (1, f"hintcell: cannot listen on {port}: Address already in use\n")
