"""The recorded exchanges of the line protocol, and the two ways to run one without a manager.

To run one test for each case: `@pytest.mark.parametrize("case", load_cases(), ids=attrgetter("name"))`.
"""

import base64
import functools
import gzip
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hintcell_worker import command
from hintcell_worker.conversation import Conversation, Options
from hintcell_worker.protocol import RequestError

# A cold worker loads scikit-learn in about a second; a machine under load gets many times that.
CHILD_TIMEOUT_S = 60


@dataclass(frozen=True)
class Case:
    """One recorded exchange; `exit` is 0, or 1 for any failure."""

    name: str
    argv: tuple[str, ...]
    stdin: bytes
    stdout: bytes
    exit: int

    @property
    def is_session(self) -> bool:
        return "--session" in self.argv


class Outcome(NamedTuple):
    """What came of one conversation: the answers, and the error that ended it, if one did."""

    answers: list[bytes]
    error: RequestError | None

    @property
    def stdout(self) -> bytes:
        return b"".join(self.answers)


@functools.cache
def load_cases() -> tuple[Case, ...]:
    """All recorded exchanges, in their order in the file."""
    lines = gzip.decompress((Path(__file__).parent / "cases.jsonl.gz").read_bytes()).splitlines()
    return tuple(
        Case(case["name"], tuple(case["argv"]), _bytes(case["stdin"]), _bytes(case["stdout"]), case["exit"])
        for case in map(json.loads, lines)
    )


def _bytes(recorded: str | dict[str, str]) -> bytes:
    """A recorded stream: its text, or its base64 where it is not UTF-8."""
    return recorded.encode() if isinstance(recorded, str) else base64.b64decode(recorded["base64"])


def converse(options: Options, chunks: Iterable[bytes]) -> Outcome:
    """One conversation in this process, its input arriving in these chunks."""
    answers: list[bytes] = []
    try:
        conversation = Conversation(options)
        for chunk in chunks:
            for answer in conversation.receive(chunk):
                answers.append(answer)
        for answer in conversation.end_of_input():
            answers.append(answer)
    except RequestError as error:
        return Outcome(answers, error)
    return Outcome(answers, None)


def converse_as(argv: Sequence[str], chunks: Iterable[bytes]) -> Outcome:
    """The same, with the options that these arguments of the command stand for."""
    try:
        options = command._parse(argv)
    except RequestError as error:
        return Outcome([], error)
    return converse(options, chunks)


def run_python(arguments: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """A new Python process with this input, run to its end."""
    return subprocess.run(
        [sys.executable, "-P", *arguments], input=stdin, capture_output=True, timeout=CHILD_TIMEOUT_S, check=False
    )


def run_cold(argv: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """The cold command, as `hintcell-worker` runs it."""
    return run_python(["-m", "hintcell_worker", *argv], stdin)
