"""What only a real process shows: streams, descriptors, exit statuses, and what is loaded when."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from tests.contract.conformance import CHILD_TIMEOUT_S, converse_as, run_cold, run_python
from tests.worker.requests import encode, small_request

_COLD = [sys.executable, "-P", "-m", "hintcell_worker"]
_REQUEST = encode(small_request())


def _one_line(stderr: bytes) -> str:
    """The message, which must be one line and no traceback."""
    text = stderr.decode()
    assert text.startswith("hintcell-worker: ")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return text


@pytest.fixture
def session() -> Iterator[subprocess.Popen[bytes]]:
    """A cold session with its three streams as pipes; killed if the test leaves it alive."""
    with subprocess.Popen(
        [*_COLD, "--session", "--limit", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def _send(process: subprocess.Popen[bytes], data: bytes) -> None:
    stdin = cast(BinaryIO, process.stdin)
    stdin.write(data)
    stdin.flush()


def _receive(process: subprocess.Popen[bytes]) -> bytes:
    return cast(BinaryIO, process.stdout).readline()


def test_pages_come_while_stdin_is_open_and_a_line_that_never_ends_is_refused(
    session: subprocess.Popen[bytes],
) -> None:
    _send(session, _REQUEST)
    cursor = json.loads(_receive(session))["page"]["next_cursor"]
    _send(session, encode({"cursor": cursor, "limit": 1}))
    assert json.loads(_receive(session))["page"]["offset"] == 1
    _send(session, b" " * 1025)
    assert session.wait(CHILD_TIMEOUT_S) == 2
    assert "over 1024 bytes" in _one_line(cast(BinaryIO, session.stderr).read())
    assert _receive(session) == b""


def test_a_broken_pipe_ends_quietly(session: subprocess.Popen[bytes]) -> None:
    cast(BinaryIO, session.stdout).close()
    _send(session, _REQUEST)
    assert session.wait(CHILD_TIMEOUT_S) == 0
    assert cast(BinaryIO, session.stderr).read() == b""


def test_a_peer_that_resets_the_connection_ends_the_session_quietly() -> None:
    ours, its = socket.socketpair()
    with (
        ours,
        subprocess.Popen(
            [*_COLD, "--session", "--limit", "1"], stdin=its.fileno(), stdout=its.fileno(), stderr=subprocess.PIPE
        ) as process,
    ):
        its.close()
        ours.sendall(_REQUEST)
        assert ours.recv(1, socket.MSG_PEEK) == b"{"
        ours.close()  # With the page unread in it, which is what makes this a reset.
        assert process.wait(CHILD_TIMEOUT_S) == 0
        assert cast(BinaryIO, process.stderr).read() == b""


def test_a_full_disk_ends_with_status_1_and_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            _COLD, input=_REQUEST, stdout=full, stderr=subprocess.PIPE, timeout=CHILD_TIMEOUT_S, check=False
        )
    assert ended.returncode == 1
    assert "cannot write the response: No space left on device" in _one_line(ended.stderr)


@pytest.mark.parametrize("descriptor", [0, 1])
def test_a_closed_standard_stream_is_refused_in_words(descriptor: int) -> None:
    script = f"import os, sys; from hintcell_worker import command; os.close({descriptor}); sys.exit(command.main([]))"
    ended = run_python(["-c", script], _REQUEST)
    assert ended.returncode == 2
    assert "must both be open" in _one_line(ended.stderr)


def test_with_standard_error_closed_only_answers_reach_the_protocol() -> None:
    script = """
import os, sys
from hintcell_worker import command
from hintcell_worker.conversation import Conversation
rank = Conversation._rank
def noisy(self, request):
    os.write(1, b"stray write to 1")
    os.write(2, b"stray write to 2")
    return rank(self, request)
Conversation._rank = noisy
os.close(2)
sys.exit(command.main(sys.argv[1:]))
"""
    argv = ["--session", "--limit", "1"]
    ours, its = socket.socketpair()
    with (
        ours,
        its,
        subprocess.Popen(
            [sys.executable, "-P", "-c", script, *argv], stdin=its.fileno(), stdout=its.fileno()
        ) as process,
    ):
        its.close()
        ours.sendall(_REQUEST + b"a bad line\n")
        assert process.wait(CHILD_TIMEOUT_S) == 2
        assert ours.recv(4096) == converse_as(argv, [_REQUEST]).stdout


def test_an_argument_that_is_not_utf8_is_refused_in_words() -> None:
    ended = run_cold(["--limit", "1", "--cursor", "c", "\udcff"], _REQUEST)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert "unrecognized arguments" in _one_line(ended.stderr)


def test_a_refused_request_loads_neither_scikit_learn_nor_numpy() -> None:
    script = """
import sys
from hintcell_worker import command
status = command.main([])
print(status, sorted({"sklearn", "numpy", "scipy"} & sys.modules.keys()), file=sys.stderr)
"""
    ended = run_python(["-c", script], encode(small_request(query=" ")))
    message, seen = ended.stderr.decode().splitlines()
    assert "query is blank" in message
    assert seen == "2 []"
    assert ended.stdout == b""


def test_stray_output_and_input_never_touch_the_protocol() -> None:
    script = """
import os, subprocess, sys
from hintcell_worker import command
from hintcell_worker.conversation import Conversation
rank = Conversation._rank
def noisy(self, request):
    print("stray print", flush=True)
    os.write(1, b"stray write\\n")
    subprocess.run(["echo", "stray child"], check=True)
    assert os.path.samestat(os.fstat(0), os.stat(os.devnull)), "a stray read would take a line of the protocol"
    return rank(self, request)
Conversation._rank = noisy
sys.exit(command.main(sys.argv[1:]))
"""
    argv = ["--session", "--limit", "1"]
    ended = run_python(["-c", script, *argv], _REQUEST)
    assert ended.returncode == 0
    assert ended.stdout == converse_as(argv, [_REQUEST]).stdout
    assert ended.stderr.decode().splitlines() == ["stray print", "stray write", "stray child"]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        ("ValueError('a secret text')", 1, "internal error, please report it: ValueError at <string>:"),
        ("RecursionError('a secret text')", 1, "internal error, please report it: RecursionError at <string>:"),
        ("MemoryError('a secret text')", 1, "out of memory: send fewer documents"),
    ],
)
def test_our_own_failure_is_one_line_that_quotes_no_text(error: str, status: int, message: str) -> None:
    ended = run_python(["-c", _failing(error)], _REQUEST)
    assert (ended.returncode, ended.stdout) == (status, b"")
    assert message in _one_line(ended.stderr)
    assert b"secret" not in ended.stderr


def test_an_interrupt_ends_with_its_own_status_and_no_traceback() -> None:
    ended = run_python(["-c", _failing("KeyboardInterrupt")], _REQUEST)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def _failing(error: str) -> str:
    """A worker whose ranking fails with this error."""
    return f"""
import sys
from hintcell_worker import command
from hintcell_worker.conversation import Conversation
def fail(self, request):
    raise {error}
Conversation._rank = fail
sys.exit(command.main([]))
"""


def test_a_response_larger_than_a_pipe_arrives_whole() -> None:
    documents = [{"id": f"{position:0>128}", "text": "x"} for position in range(1000)]
    ended = run_cold([], encode(small_request(documents=documents)))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert len(ended.stdout) > 2 * 65536
    assert [candidate["candidate_id"] for candidate in json.loads(ended.stdout)["candidates"]] == [
        document["id"] for document in documents
    ]


def test_a_worker_whose_parent_is_gone_ends_before_it_starts() -> None:
    script = "from hintcell_worker.process import die_with_parent; die_with_parent(1 << 22); print('still here')"
    ended = run_python(["-c", script], b"")
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


def test_a_worker_whose_parent_lives_goes_on() -> None:
    script = f"from hintcell_worker.process import die_with_parent; die_with_parent({os.getpid()}); print('still here')"
    assert run_python(["-c", script], b"").stdout == b"still here\n"
