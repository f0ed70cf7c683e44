"""The session door: one line in, one line back, and nobody can hold it up."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hintcell_manager import door as door_module
from hintcell_manager.door import Door, answer, peer_uid
from hintcell_manager.protocol import (
    MAX_DOOR_LINE_BYTES,
    Attach,
    Attached,
    DoorRequest,
    Grant,
    OpenRequest,
    Refused,
    door_replies,
    encode_line,
)
from tests.manager.places import PATIENCE_S, own_descriptors

_OPEN = OpenRequest(Grant("alice", ("a",), "instance", 0), "s1", limit=10)
_HELLO = Attached("instance", 1, "/here", "c")

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Behind:
    """What is behind the door: it notes each request, says hello and hangs up."""

    def __init__(self) -> None:
        self.requests: list[DoorRequest] = []

    async def visit(self, connection: socket.socket, request: DoorRequest) -> None:
        self.requests.append(request)
        with connection:
            answer(connection, _HELLO)


def run(scene: Coroutine[Any, Any, None]) -> None:
    """Run a scene in a loop where an error of a callback or a forgotten task is not lost."""
    errors: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
        await asyncio.wait_for(scene, PATIENCE_S)

    asyncio.run(watched())
    assert errors == []


@contextlib.asynccontextmanager
async def a_door(place: Path, visit: Callable[[socket.socket, DoorRequest], Awaitable[None]]) -> AsyncIterator[Path]:
    path = place / "door"
    door = Door(path, visit)
    try:
        yield path
    finally:
        await door.close()


@contextlib.asynccontextmanager
async def a_visitor(path: Path) -> AsyncIterator[Ends]:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _say(path: Path, *pieces: bytes) -> bytes:
    """What the door says to these pieces, until it hangs up."""
    async with a_visitor(path) as (reader, writer):
        with contextlib.suppress(ConnectionError):  # It may have heard enough.
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            return await reader.read()
        return b""


def _refusal(said: bytes) -> str:
    reply = door_replies.decode(said)
    assert isinstance(reply, Refused)
    assert reply.reason == "bad_request"
    return reply.message


@pytest.mark.parametrize("request_", [_OPEN, Attach()], ids=["open", "attach"])
def test_a_request_is_passed_on_with_its_connection(place: Path, request_: DoorRequest) -> None:
    async def scene() -> None:
        behind = Behind()
        async with a_door(place, behind.visit) as path:
            assert door_replies.decode(await _say(path, encode_line(request_))) == _HELLO
        assert behind.requests == [request_]

    run(scene())


def test_the_connection_stays_open_as_long_as_its_owner_wants(place: Path) -> None:
    async def scene() -> None:
        owned: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

        async def visit(connection: socket.socket, _request: DoorRequest) -> None:
            owned.set_result(connection)

        async with a_door(place, visit) as path, a_visitor(path) as (reader, writer):
            writer.write(encode_line(Attach()))
            connection = await owned
            await asyncio.get_running_loop().sock_sendall(connection, b"still here\n")
            assert await reader.readline() == b"still here\n"
            connection.close()
            assert await reader.read() == b""

    run(scene())


def test_a_line_may_come_in_pieces(place: Path) -> None:
    async def scene() -> None:
        behind = Behind()
        line = encode_line(_OPEN)
        async with a_door(place, behind.visit) as path, a_visitor(path) as (reader, writer):
            for position in range(len(line)):
                writer.write(line[position : position + 1])
                await writer.drain()
                await asyncio.sleep(0)
            assert door_replies.decode(await reader.read()) == _HELLO
        assert behind.requests == [_OPEN]

    run(scene())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "did not understand"),
        (b"hello\n", "did not understand"),
        (b"\xff\xfe\n", "did not understand"),
        (b'{"type":"shout"}\n', "Invalid value 'shout'"),
        (b'{"type":"attach","extra":1}\n', "unknown field `extra`"),
        (b'{"type":"open"}\n', "missing required field"),
        (b'{"type":"status_request"}\n', "Invalid value 'status_request'"),
        (encode_line(Attach())[:-1] + encode_line(Attach()), "trailing characters"),
        (encode_line(_OPEN).replace(b'"limit":10', b'"limit":"10"'), "Expected `int`, got `str`"),
        (encode_line(_OPEN).replace(b'"limit":10', b'"limit":' + b"9" * 5000), "out of range"),
        (b'{"a":' + b"[" * 60_000 + b"\n", "did not understand"),
    ],
    ids=lambda value: repr(value[:40]),
)
def test_a_line_that_is_no_request_is_refused_in_words(place: Path, line: bytes, message: str) -> None:
    async def scene() -> None:
        behind = Behind()
        async with a_door(place, behind.visit) as path:
            assert message in _refusal(await _say(path, line))
            assert door_replies.decode(await _say(path, encode_line(Attach()))) == _HELLO, "and the next one is served"
        assert behind.requests == [Attach()]

    run(scene())


def test_a_line_that_never_ends_is_refused_at_its_limit(place: Path) -> None:
    async def scene() -> None:
        async with a_door(place, Behind().visit) as path:
            assert "did not understand" in _refusal(await _say(path, b" " * (MAX_DOOR_LINE_BYTES + 1)))
            await _say(path, *[b"x" * MAX_DOOR_LINE_BYTES] * 40)  # Cut off, whether or not it hears why.
            assert door_replies.decode(await _say(path, encode_line(Attach()))) == _HELLO

    run(scene())


def test_a_line_at_its_limit_is_served(place: Path) -> None:
    async def scene() -> None:
        behind = Behind()
        request = OpenRequest(_OPEN.grant, "s" * (MAX_DOOR_LINE_BYTES - len(encode_line(_OPEN)) + 2), limit=10)
        line = encode_line(request)
        assert len(line) == MAX_DOOR_LINE_BYTES
        async with a_door(place, behind.visit) as path:
            assert door_replies.decode(await _say(path, line)) == _HELLO
        assert behind.requests == [request]

    run(scene())


@pytest.mark.parametrize("beginning", [b"", b'{"type":"att'], ids=["nothing", "half a line"])
def test_who_does_not_say_a_whole_line_is_dropped_at_the_deadline(
    place: Path, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(door_module, "LINE_DEADLINE_S", 0.05)

    async def scene() -> None:
        behind = Behind()
        async with a_door(place, behind.visit) as path, a_visitor(path) as (reader, writer):
            writer.write(beginning)
            assert await reader.read() == b""
        assert behind.requests == []

    run(scene())


def test_who_leaves_before_the_end_of_its_line_is_no_visitor(place: Path) -> None:
    async def scene() -> None:
        behind = Behind()
        async with a_door(place, behind.visit) as path:
            async with a_visitor(path) as (_, writer):
                writer.write(encode_line(Attach())[:-1])
            async with a_visitor(path):
                pass
            assert door_replies.decode(await _say(path, encode_line(Attach()))) == _HELLO
        assert behind.requests == [Attach()]

    run(scene())


def test_another_user_hears_nothing_and_gets_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "peer_uid", lambda _connection: os.geteuid() + 1)

    async def scene() -> None:
        behind = Behind()
        async with a_door(place, behind.visit) as path:
            assert await _say(path, encode_line(Attach())) == b""
            assert await _say(path, b"garbage\n") == b""
        assert behind.requests == []

    run(scene())


def test_the_uid_of_a_peer_is_the_kernels_word() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.geteuid()


def test_many_visitors_at_one_moment_are_all_served(place: Path) -> None:
    async def scene() -> None:
        behind = Behind()
        async with a_door(place, behind.visit) as path:
            said = await asyncio.gather(*(_say(path, encode_line(Attach())) for _ in range(200)))
        assert {door_replies.decode(line) for line in said} == {_HELLO}
        assert behind.requests == [Attach()] * 200

    run(scene())


def test_after_close_nobody_is_kept_and_nobody_is_let_in(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "LINE_DEADLINE_S", 10 * PATIENCE_S)

    async def scene() -> None:
        behind = Behind()
        descriptors = own_descriptors()
        door = Door(place / "door", behind.visit)
        async with a_visitor(place / "door") as (silent, _):
            assert door_replies.decode(await _say(place / "door", encode_line(Attach()))) == _HELLO
            await door.close()
            assert await silent.read() == b""
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_unix_connection(place / "door")
        assert own_descriptors() == descriptors

    run(scene())


def test_an_answer_that_nobody_hears_is_told_as_such() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        assert answer(ours, _HELLO)
        theirs.close()
        assert not answer(ours, _HELLO)
