"""Lines that the SDK cannot read: a request is answered by its id, and no line ends the server."""

import json
from pathlib import Path

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCRequest, jsonrpc_message_adapter
from pydantic import ValidationError

from hintcell.integrations.mcp.lines import Read, hand_on
from tests.client.cli.processes import EVENT_DEADLINE_S, Command
from tests.integrations.mcp.wire import Wire

_HALF = "\ud800"


def test_a_request_with_half_of_a_surrogate_pair_is_answered(command: Command, folder: Path) -> None:
    wire = Wire(command, "--root", folder)
    number = wire.begin("tools/call", name="search_code", arguments={"query": _HALF})
    assert wire.process.stdout is not None
    answer = json.loads(wire.process.stdout.readline())
    assert answer["id"] == number
    assert answer["error"]["code"] == -32700
    assert "surrogate" in answer["error"]["message"]
    assert wire.search()["hits"]
    assert wire.rest(EVENT_DEADLINE_S) == (0, b"", "")


class _Answers:
    def __init__(self) -> None:
        self.sent: list[SessionMessage] = []

    async def send(self, item: SessionMessage, /) -> None:
        self.sent.append(item)


def _read(*lines: str) -> tuple[list[Read], list[SessionMessage]]:
    """What is handed on of these lines, which are read as the SDK reads them, and what is answered to them."""

    async def read() -> tuple[list[Read], list[SessionMessage]]:
        answers = _Answers()
        reading, found = anyio.create_memory_object_stream[Read](len(lines))
        sending, handed_on = anyio.create_memory_object_stream[Read](len(lines))
        for line in lines:
            try:
                item: Read = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValidationError as error:
                item = error
            await reading.send(item)
        reading.close()
        async with found, handed_on:
            await hand_on(found, sending, answers)
            return [item async for item in handed_on], answers.sent

    return anyio.run(read)


def _request(number: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": _HALF})


@pytest.mark.parametrize("number", [0, -5, 2**60, "a", ""])
def test_the_answer_has_the_id_of_the_request(number: int | str) -> None:
    handed_on, [answer] = _read(_request(number))
    assert handed_on == []
    assert isinstance(answer.message, JSONRPCError)
    assert answer.message.id == number
    assert _HALF not in answer.message.model_dump_json()


@pytest.mark.parametrize(
    "line",
    [
        *map(_request, (_HALF, "é" + _HALF, None, 1.5, True, [1], {})),
        f'["{chr(92)}ud800"]',
        "no JSON",
        "[" * 100_000,
        '{"id": ' + "9" * 5_000 + "}",
        "",
    ],
)
def test_what_has_no_id_that_can_be_written_is_passed_over(line: str) -> None:
    handed_on, answered = _read(line)
    assert answered == []
    [item] = handed_on
    assert isinstance(item, ValidationError)


def test_what_can_be_read_is_handed_on_in_order() -> None:
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}) for number in range(3)]
    handed_on, answered = _read(lines[0], _request(7), *lines[1:])
    messages = [item.message for item in handed_on if isinstance(item, SessionMessage)]
    assert [message.id for message in messages if isinstance(message, JSONRPCRequest)] == [0, 1, 2]
    assert len(answered) == 1
