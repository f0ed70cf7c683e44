"""Every command for a shared manager as a real process, with one manager for all of them."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import pytest

from hintcell import Client, HintcellError, Session, SessionEnded
from tests.client.cli.processes import EVENT_DEADLINE_S, Command
from tests.client.searches import search
from tests.client.searches import short_directory as new_directory


class _Shared(NamedTuple):
    directory: Path
    keys: Path
    endpoint: str
    client: Client


def _wait_for_client(directory: Path, manager: "subprocess.Popen[bytes]") -> Client:
    until = time.monotonic() + EVENT_DEADLINE_S
    while True:
        try:
            return Client(directory)
        except HintcellError:
            assert manager.poll() is None, "the manager ended at its start"
            assert time.monotonic() < until
            time.sleep(0.02)


@pytest.fixture(scope="module")
def shared() -> Iterator[_Shared]:
    """A manager with control over TCP, started by `hintcell serve` with keys of `hintcell keys`."""
    hintcell = [sys.executable, "-P", "-m", "hintcell.cli"]
    with new_directory() as base:
        keys, directory = base / "k", base / "d"
        for arguments in ([], ["--client", "ops", "--role", "revoke"], ["--client", "eye"]):
            made = subprocess.run([*hintcell, "keys", keys, *arguments], capture_output=True, text=True, check=True)
            assert all(Path(line).exists() for line in made.stdout.splitlines())
        with subprocess.Popen(
            [*hintcell, "serve", "--directory", directory, "--control", "tcp://127.0.0.1:*", "--keys", keys],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as manager:
            try:
                log = cast(BinaryIO, manager.stderr)
                line = next(line for line in log if b"control endpoint=" in line)
                drain = threading.Thread(target=log.read)
                drain.start()
                with _wait_for_client(directory, manager) as client:
                    yield _Shared(directory, keys, line.split(b"endpoint=")[1].strip().decode(), client)
                manager.terminate()
                assert manager.wait(EVENT_DEADLINE_S) == 0
                drain.join()
            finally:
                manager.kill()


@pytest.fixture
def session(shared: _Shared, request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session of a principal of its own."""
    grant = shared.client.grant(f"of {request.node.name}", ["repo:api"])
    with search(shared.client, grant, snapshot_id="api@1") as session:
        session.page()
        yield session


def test_status_and_top_show_a_session(shared: _Shared, session: Session, command: Command) -> None:
    for name in ("status", "top"):
        status, out, err = command.run(name, "--directory", shared.directory)
        assert (status, err) == (0, "")
        line = next(line for line in out.decode().splitlines() if session.id in line)
        assert line.endswith("of test_status_and_top_show_a_session  repo:api  api@1")
        assert " running " in line


def test_a_full_status_in_json_has_pss_and_history(shared: _Shared, session: Session, command: Command) -> None:
    _, out, _ = command.run("status", "--directory", shared.directory, "--json", "--full")
    (told,) = (one for one in json.loads(out)["sessions"] if one["session_id"] == session.id)
    assert 0 < told["memory"]["uss_bytes"] <= told["memory"]["pss_bytes"] <= told["memory"]["rss_bytes"]


def test_a_revoked_session_is_named_and_dead(shared: _Shared, session: Session, command: Command) -> None:
    principal = "of test_a_revoked_session_is_named_and_dead"
    status, out, err = command.run("revoke", "--principal", principal, "--directory", shared.directory)
    assert (status, err) == (0, "")
    assert out.decode().startswith(f"{session.id}  pid {session.pid}  dead after ")
    assert not Path(f"/proc/{session.pid}").exists()
    with pytest.raises(SessionEnded, match="permission_changed"):
        session.page()


def _remote(shared: _Shared, client: str) -> list[str | Path]:
    keys = ["--key", shared.keys / "clients" / f"{client}.key_secret", "--manager-key", shared.keys / "manager.key"]
    return ["--manager", shared.endpoint, *keys]


def test_from_elsewhere_one_can_look(shared: _Shared, session: Session, command: Command) -> None:
    status, out, err = command.run("status", *_remote(shared, "eye"))
    assert (status, err) == (0, "")
    assert session.id in out.decode()


def test_from_elsewhere_one_can_revoke(shared: _Shared, session: Session, command: Command) -> None:
    status, out, err = command.run("revoke", "--session", session.id, *_remote(shared, "ops"))
    assert (status, err) == (0, "")
    assert out.decode().startswith(session.id)


def test_a_key_without_the_role_is_told_so(shared: _Shared, session: Session, command: Command) -> None:
    with command.start("revoke", "--session", session.id, *_remote(shared, "eye")) as process:
        try:
            _, err = process.communicate(timeout=EVENT_DEADLINE_S)
        finally:
            process.kill()
    assert (process.returncode, err) == (
        1,
        b"hintcell: this key has not the role revoke: ask whoever runs the manager\n",
    )
    assert session.page()


@contextlib.contextmanager
def _listening(shared: _Shared, command: Command, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """`hintcell events`, once it has printed its first line: until then, changes are made for it to tell."""
    with command.start("events", "--directory", shared.directory, *arguments) as process:
        try:
            until = time.monotonic() + EVENT_DEADLINE_S
            while not select.select([process.stdout], [], [], 0.05)[0]:
                assert time.monotonic() < until
                shared.client.permission_changed(principal="nobody")
            yield process
        finally:
            process.kill()


def test_events_are_told_as_they_happen_until_ctrl_c(shared: _Shared, command: Command) -> None:
    with _listening(shared, command, "--json") as process:
        out = cast(BinaryIO, process.stdout)
        with search(shared.client, shared.client.grant("told")) as session:
            session.page()
        kinds: list[str] = []
        while "ended" not in kinds:
            event = json.loads(out.readline())
            if event.get("session_id") == session.id:
                assert event["principal"] == "told"
                kinds.append(event["kind"])
        assert kinds == ["opened", "ended"]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=EVENT_DEADLINE_S)
        assert (process.returncode, err) == (130, b"")


def test_events_end_when_nobody_reads_them(shared: _Shared, command: Command) -> None:
    with _listening(shared, command) as process:
        cast(BinaryIO, process.stdout).close()
        until = time.monotonic() + EVENT_DEADLINE_S
        while process.poll() is None:
            assert time.monotonic() < until
            shared.client.permission_changed(principal="nobody")
            time.sleep(0.05)
        assert process.returncode == 0
        assert cast(BinaryIO, process.stderr).read() == b""


def _top_on_a_terminal(shared: _Shared, key: bytes) -> tuple[int, bytes]:
    """What `hintcell top` shows on a terminal where this key is pressed after its first frame, and its status."""
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            os.environ.update(TERM="xterm-256color", COLUMNS="160", LINES="40")
            arguments = ["-P", "-m", "hintcell.cli", "top", "--directory", str(shared.directory)]
            os.execv(sys.executable, [sys.executable, *arguments])
        finally:
            os._exit(127)
    shown = b""
    pressed = False
    until = time.monotonic() + EVENT_DEADLINE_S
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            try:
                shown += os.read(terminal, 65_536)
            except OSError:  # EIO: nobody has the other end any more.
                break
            if not pressed and b"Ends of the last minute" in shown:
                os.write(terminal, key)
                pressed = True
        else:
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("key", "status"), [(b"q", 0), (b"\x03", 130)])
def test_top_on_a_terminal_ends_quietly_and_leaves_the_screen_as_it_was(
    shared: _Shared, session: Session, key: bytes, status: int
) -> None:
    ended, shown = _top_on_a_terminal(shared, key)
    assert ended == status, shown
    assert session.id.encode() in shown
    assert b"interrupted" not in shown
    assert shown.rindex(b"\x1b[?1049l") > shown.rindex(b"\x1b[?1049h")  # the alternate screen
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")  # the cursor
