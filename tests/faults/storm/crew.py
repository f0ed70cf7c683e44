"""An agent as the round holds it: commands in, outcomes out, and what is still to be answered."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from tests.faults.storm.messages import Command, Outcome, encode_line, outcomes
from tests.faults.storm.plan import Kind

_READ_BYTES: Final = 256 * 1024


class Pending(msgspec.Struct, frozen=True):
    """A command that is not answered yet."""

    command: Command
    sent: float


class Agent:
    """One client process."""

    def __init__(self, name: str, kind: Kind, environment: dict[str, str], log: BinaryIO, signals: str) -> None:
        """Start it. `signals` is the state of its signals (see `under`); `log` takes its standard error."""
        self.name: Final = name
        self.kind: Final = kind
        self.pending: dict[int, Pending] = {}
        self.is_ready = False
        self.is_gone = False
        self._input = b""
        self.process: Final = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.faults.storm.under", signals),
                *(sys.executable, "-m", "tests.faults.storm.agent", kind),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=Path(__file__).parents[3],
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._commands: Final = self.process.stdin.fileno()
        self.outcomes_fd: Final = self.process.stdout.fileno()
        os.set_blocking(self.outcomes_fd, False)

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def send(self, command: Command) -> None:
        """Command something; to a dead agent, nothing happens."""
        if self.is_gone:
            return
        self.pending[command.op] = Pending(command, time.monotonic())
        try:
            os.write(self._commands, encode_line(command))
        except BrokenPipeError:
            self.pending.clear()

    def receive(self) -> list[tuple[Pending, Outcome]]:
        """What it has answered since the last time."""
        answered = []
        try:
            data = os.read(self.outcomes_fd, _READ_BYTES)
        except BlockingIOError:
            return []
        if not data:
            self.is_gone = True
            self.pending.clear()
            return []
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            outcome = outcomes.decode(line)
            self.is_ready = True  # Its first outcome, of no command, says so.
            pending = self.pending.pop(outcome.op, None)
            if pending is not None:
                answered.append((pending, outcome))
        return answered

    def close(self) -> None:
        """Give back the descriptors of a process that has ended."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
