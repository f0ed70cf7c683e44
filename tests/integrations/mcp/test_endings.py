"""How a server ends, and everything that it started with it: the end of its input, signals, and deaths."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.cli.processes import EVENT_DEADLINE_S, FOLLOW_DEADLINE_S, Command, role_of, wait_until
from tests.integrations.mcp.wire import START, Wire

_QUIET = b""
# What Linux keeps of what nobody has read.
_PIPE_BYTES = 64 * 1024

# `hintcell mcp`, which waits for its manager's end a little longer than other commands do for their own, but not long.
_IMPATIENT = (
    sys.executable,
    "-P",
    "-c",
    """\
import sys
from hintcell import cli, sidecar
cli.INTERRUPTED_DEADLINE_S = 1
sidecar.STOP_DEADLINE_S = 1.5
sys.exit(cli.main(['mcp', *sys.argv[1:]]))
""",
)


@pytest.fixture
def wire(command: Command, folder: Path) -> Iterator[Wire]:
    wire = Wire(command, "--root", folder)
    yield wire
    wire.process.kill()
    wire.process.communicate()


def _all_follow(command: Command) -> None:
    wait_until(lambda: command.processes() == [], FOLLOW_DEADLINE_S)


def test_the_end_of_the_input_ends_it(command: Command, wire: Wire) -> None:
    wire.search()
    assert command.has("worker")
    assert wire.rest(EVENT_DEADLINE_S) == (0, _QUIET, "")
    assert command.processes() == []  # Already: it waited for them.


def test_an_input_that_ends_at_once_ends_it(command: Command) -> None:
    assert command.run("mcp") == (0, b"", "")
    _all_follow(command)


@pytest.mark.parametrize("closed", ["<&-", "</dev/null >&-", "</dev/null 2>&-"])
def test_closed_standard_streams_are_no_error(closed: str) -> None:
    shell = ["/bin/sh", "-c", f'"$@" {closed}', "sh", *START]
    done = subprocess.run(shell, capture_output=True, timeout=EVENT_DEADLINE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_its_input_is_open(command: Command, wire: Wire, number: signal.Signals) -> None:
    wire.search()
    wire.process.send_signal(number)
    assert wire.process.wait(EVENT_DEADLINE_S) == 128 + number
    assert command.processes() == []  # Already: it waited for them.
    assert wire.rest(EVENT_DEADLINE_S) == (128 + number, _QUIET, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_many_signals_do_not_interrupt_the_tidying_up(command: Command, wire: Wire, number: signal.Signals) -> None:
    wire.search()
    for _ in range(20):
        wire.process.send_signal(number)
    assert wire.process.wait(EVENT_DEADLINE_S) == 128 + number
    _all_follow(command)


def test_a_signal_while_the_first_search_starts_a_manager(command: Command, wire: Wire) -> None:
    wire.begin("tools/call", name="search_code", arguments={"query": "needle"})
    wait_until(lambda: command.has("manager"))
    wire.process.send_signal(signal.SIGTERM)
    assert wire.process.wait(EVENT_DEADLINE_S) == 128 + signal.SIGTERM
    _all_follow(command)


def test_the_end_of_the_input_while_a_search_is_made(command: Command, wire: Wire) -> None:
    wire.begin("tools/call", name="search_code", arguments={"query": "needle"})
    wait_until(lambda: command.has("manager"))
    status, _, err = wire.rest(EVENT_DEADLINE_S)
    assert (status, err) == (0, "")
    _all_follow(command)


def test_a_manager_that_does_not_end_is_killed(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder, start=_IMPATIENT)
    wire.search()
    [manager] = [process for process in command.processes() if role_of(process) == "manager"]
    manager.suspend()
    assert wire.rest(EVENT_DEADLINE_S) == (0, _QUIET, "")
    _all_follow(command)


def test_the_end_of_the_input_ends_it_though_nobody_reads_the_answers(command: Command, wire: Wire) -> None:
    answer = len(json.dumps(wire.list_tools()))
    assert wire.process.stdin is not None
    for _ in range(2 * _PIPE_BYTES // answer):
        wire.begin("tools/list")
    wire.process.stdin.close()
    wire.process.stdin = None  # Or the fixture would flush it.
    assert wire.process.wait(EVENT_DEADLINE_S) == 0
    _all_follow(command)


def test_killed_it_takes_everything_with_it(command: Command, wire: Wire) -> None:
    wire.search()
    wire.process.kill()
    wire.process.wait()
    _all_follow(command)


def test_it_ends_when_the_agent_that_started_it_is_killed(command: Command, folder: Path) -> None:
    agent = (
        "import subprocess, sys\n"
        "server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(server.pid, flush=True)\n"
        "for line in sys.stdin:\n"
        "    server.stdin.write(line.encode()); server.stdin.flush()\n"
        "    print(server.stdout.readline().decode(), end='', flush=True)\n"
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    search = {"name": "search_code", "arguments": {"query": "needle"}}
    with subprocess.Popen(
        [sys.executable, "-c", agent, *START, "--root", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | command.environment,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            server = int(process.stdout.readline())
            for number, (method, parameters) in enumerate((("initialize", hello), ("tools/call", search))):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                assert '"result"' in process.stdout.readline()
            assert server in [found.pid for found in command.processes()]  # Its mark is not there before it has begun.
            assert command.has("worker")
        finally:
            process.kill()
    _all_follow(command)


def test_a_manager_that_was_killed_is_told_and_the_next_search_starts_another(command: Command, wire: Wire) -> None:
    page = wire.search()
    [manager] = [process for process in command.processes() if role_of(process) == "manager"]
    manager.kill()
    # A worker whose template has just died looks like a template.
    wait_until(lambda: not command.has("worker") and not command.has("template"))
    more = wire.call("more_results", session=page["session"], cursor=page["next_cursor"])
    assert more["isError"]
    assert "manager_stopped" in more["content"][0]["text"]
    assert "search again" in more["content"][0]["text"]
    assert wire.search()["hits"] == page["hits"]


def test_a_search_that_finds_the_manager_killed_starts_another(command: Command, wire: Wire) -> None:
    page = wire.search()
    [manager] = [process for process in command.processes() if role_of(process) == "manager"]
    manager.kill()
    # A worker whose template has just died looks like a template.
    wait_until(lambda: not command.has("worker") and not command.has("template"))
    again = wire.search()
    assert again["hits"] == page["hits"]
    old = wire.call("more_results", session=page["session"], cursor=page["next_cursor"])
    assert old["content"][0]["text"].endswith("search again")
