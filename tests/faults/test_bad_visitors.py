"""Peers that break off, say nothing or talk nonsense: at the session door, at the control endpoint, in a session."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from hintcell import Client, Grant
from hintcell_manager.protocol import (
    CONTROL_NAME,
    DOOR_NAME,
    MAX_DOOR_LINE_BYTES,
    Attach,
    Attached,
    OpenRequest,
    door_replies,
    encode_line,
)
from tests.client.searches import catalog, next_cursor, search
from tests.faults.patches import Patches
from tests.faults.processes import SOON_S, Family, assert_none_left, unread, until


@contextlib.contextmanager
def visitor(client: Client) -> Iterator[socket.socket]:
    """A connection to the session door."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SOON_S)
        connection.connect(str(client.directory / DOOR_NAME))
        yield connection


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def assert_serves(client: Client) -> None:
    with search(client, client.grant("alice")) as session:
        assert session.page().total == 50


def test_a_client_that_leaves_while_the_worker_ranks_ends_it(shared_client: Client) -> None:
    client = shared_client
    documents = catalog(4_096, text_bytes=512)
    with search(client, client.grant("alice"), documents=documents) as session, Family(client, session) as family:
        assert not unread(session), "it is still ranking"
        session.close()
        assert_none_left(family.workers)
    end = client.end_of(session.id)
    assert (end.reason, end.exit_status) == ("completed", 0)


def test_a_client_that_leaves_with_a_page_half_sent_ends_the_worker(shared_client: Client) -> None:
    client = shared_client
    with search(client, client.grant("alice"), documents=catalog(4_096), limit=4_096) as session:
        until(lambda: len(unread(session)) > 64 * 1024)
        with Family(client, session) as family:
            session.close()
            assert_none_left(family.workers)
    assert client.end_of(session.id).reason == "completed"


def knock(grant: Grant) -> bytes:
    return encode_line(OpenRequest(grant, "snapshot", 20))


@pytest.mark.parametrize("said", ["nothing", "half a line", "a knock", "attach"])
def test_a_visitor_that_leaves_at_the_door_leaves_nothing_behind(shared_client: Client, said: str) -> None:
    client = shared_client
    assert_serves(client)
    line = {
        "nothing": b"",
        "half a line": b'{"type":"open",',
        "a knock": knock(client.grant("alice")),
        "attach": encode_line(Attach()),
    }[said]
    with Family(client) as family:
        until(lambda: not client.status().sessions)
        processes = [family.manager, family.template]
        before = [process.descriptors() for process in processes]
        for _ in range(10):
            with visitor(client) as connection:
                connection.sendall(line)
                reset(connection)
        assert_serves(client)
        until(lambda: not client.status().sessions)
        until(lambda: all(process.descriptors() <= then for process, then in zip(processes, before, strict=True)))


def test_a_visitor_that_says_nothing_is_sent_away_and_holds_up_nobody(patches: Patches, runtime: Path) -> None:
    patches.deadline("hintcell_manager.door", "LINE_DEADLINE_S", 0.5)
    with Client() as client, visitor(client) as silent, visitor(client) as slow:
        slow.sendall(b"{")
        assert_serves(client)
        assert silent.recv(1) == b""
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""
        assert_serves(client)


def answer_to(client: Client, line: bytes) -> bytes:
    with visitor(client) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(line)
        with contextlib.suppress(ConnectionResetError):
            return connection.recv(100_000)
        return b""


NONSENSE = {
    "not JSON": b"GET / HTTP/1.1\r\n",
    "not UTF-8": b"\xff\xfe\n",
    "empty": b"\n",
    "two lines": encode_line(Attach()) * 2,
    "another message": encode_line(Attached("i", 1, "/", "c")),
    "an unknown field": b'{"type":"attach","uid":0}\n',
    "a wrong type": b'{"type":"open","grant":7,"snapshot_id":"s","limit":1}\n',
    "a line that never ends": b"x" * (MAX_DOOR_LINE_BYTES + 1),
}


@pytest.mark.parametrize("line", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_at_the_door_is_refused_in_words(shared_client: Client, line: bytes) -> None:
    reply = door_replies.decode(answer_to(shared_client, line))
    assert getattr(reply, "reason", None) == "bad_request"
    assert_serves(shared_client)


def test_a_limit_beyond_every_integer_reaches_the_worker_and_is_refused_there(shared_client: Client) -> None:
    line = knock(shared_client.grant("alice")).replace(b'"limit":20', b'"limit":' + b"9" * 40)
    reply = door_replies.decode(answer_to(shared_client, line))
    session_id = getattr(reply, "session_id", "")
    until(lambda: session_id not in {session.session_id for session in shared_client.status().sessions})
    assert shared_client.end_of(session_id).reason == "rejected"


# The tag that tells messages apart comes last, so that a decoder must get past the depth first.
DEEP = b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b',"type":"attach"}'


def test_a_deeply_nested_line_at_the_door_does_not_stop_the_manager(client: Client) -> None:
    assert_serves(client)
    answer_to(client, DEEP + b"\n")
    assert_serves(client)


def ask(client: Client, *frames: bytes, within_s: float) -> bytes | None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as asking:
        asking.linger = 0
        asking.connect(f"ipc://{client.directory / CONTROL_NAME}")
        asking.send_multipart(list(frames))
        return asking.recv_multipart()[-1] if asking.poll(int(within_s * 1_000)) else None


@pytest.mark.parametrize(
    "frames",
    [(b"",), (b"", b""), (b"\xff",), (b"{}",), (b'{"type":"stop"}',), (b"a", b"b", b"c")],
    ids=["empty", "two empty", "not UTF-8", "no type", "another type", "many frames"],
)
def test_nonsense_at_the_control_endpoint_is_answered_in_words(
    shared_client: Client, frames: tuple[bytes, ...]
) -> None:
    reply = ask(shared_client, *frames, within_s=SOON_S)
    assert reply is not None
    assert "did not understand" in json.loads(reply)["message"]
    assert_serves(shared_client)


def test_a_deeply_nested_control_request_is_answered_in_words(client: Client) -> None:
    assert ask(client, DEEP, within_s=1.0) is not None


def test_a_message_too_large_for_the_control_endpoint_disturbs_nobody(shared_client: Client) -> None:
    assert ask(shared_client, b"x" * 2_000_000, within_s=0.2) is None
    assert_serves(shared_client)


def test_a_client_that_does_not_read_holds_up_nobody(shared_client: Client) -> None:
    client = shared_client
    with search(client, client.grant("slow"), documents=catalog(4_096), limit=4_096) as slow:
        until(lambda: len(unread(slow)) > 64 * 1024)
        assert_serves(client)
        assert slow.page().total == 4_096
        with search(client, client.grant("alice")) as other:
            assert other.page(next_cursor(other.page())).offset == 20


def test_many_visitors_at_once_are_all_served(shared_client: Client) -> None:
    client = shared_client
    grant = client.grant("alice")
    read: list[int] = []

    def open_one() -> None:
        with search(client, grant) as session:
            read.append(session.page().total)

    threads = [threading.Thread(target=open_one) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [50] * 60
