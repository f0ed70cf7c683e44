"""However much a worker writes to standard error, it never blocks, and its last words are kept."""

import asyncio
import os

from hintcell_manager.stderr_tail import TAIL_BYTES, StderrTail
from tests.manager.places import own_descriptors

_FLOOD_LINES = 100_000


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.close(descriptor)


def test_ten_megabytes_pass_through_and_the_last_4096_bytes_stay() -> None:
    flood = b"".join(b"line %94d\n" % number for number in range(_FLOOD_LINES))
    assert len(flood) == 10_000_000

    async def scene() -> str:
        tail, writing_end = StderrTail.open(asyncio.get_running_loop())
        await asyncio.to_thread(_write_all, writing_end, flood)
        tail.drain()
        tail.close()
        return tail.text()

    assert TAIL_BYTES == 4096
    assert asyncio.run(scene()).encode() == flood[-TAIL_BYTES:]


def test_drain_reads_what_the_loop_had_no_turn_to_read() -> None:
    async def scene() -> None:
        tail, writing_end = StderrTail.open(asyncio.get_running_loop())
        tail.drain()
        assert tail.text() == ""
        os.write(writing_end, b"a" * 3000)
        os.write(writing_end, b"b" * 3000)
        tail.drain()
        assert tail.text() == "a" * 1096 + "b" * 3000
        os.write(writing_end, b"c")
        tail.drain()
        assert tail.text() == "a" * 1095 + "b" * 3000 + "c"
        os.close(writing_end)
        tail.close()

    asyncio.run(scene())


def test_a_character_cut_in_two_and_bytes_that_are_no_text_still_give_text() -> None:
    async def scene() -> str:
        tail, writing_end = StderrTail.open(asyncio.get_running_loop())
        os.write(writing_end, "é".encode() * TAIL_BYTES + b"\xff!")
        tail.drain()
        os.close(writing_end)
        tail.close()
        return tail.text()

    assert asyncio.run(scene()) == "é" * (TAIL_BYTES // 2 - 1) + "\ufffd!"


def test_the_end_of_the_stream_or_close_gives_the_descriptor_back_and_keeps_the_text() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        before = own_descriptors()
        for close_first in (False, True):
            tail, writing_end = StderrTail.open(loop)
            os.write(writing_end, b"last words")
            tail.drain()
            os.close(writing_end)
            if not close_first:
                tail.drain()
                assert own_descriptors() == before
            for _ in range(2):
                tail.close()
                tail.drain()
            assert own_descriptors() == before
            assert tail.text() == "last words"

    asyncio.run(scene())


def test_neither_end_is_inherited_and_the_draining_end_never_blocks() -> None:
    async def scene() -> None:
        tail, writing_end = StderrTail.open(asyncio.get_running_loop())
        assert not os.get_inheritable(tail._descriptor)
        assert not os.get_inheritable(writing_end)
        assert not os.get_blocking(tail._descriptor)
        assert os.get_blocking(writing_end), "a worker must not lose what it says"
        os.close(writing_end)
        tail.close()

    asyncio.run(scene())
