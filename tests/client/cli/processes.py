"""The `hintcell` command as a real process, and the processes that it starts, told apart by a mark."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import psutil

# An event that has not come by then does not come; a machine under load is given its time.
EVENT_DEADLINE_S: Final = 60.0
# What a process starts ends with it or a moment later.
FOLLOW_DEADLINE_S: Final = 5.0

_MARK: Final = "HINTCELL_TEST_MARK"

Role = Literal["manager", "template", "worker"]


class Command:
    """How to call `hintcell` so that everything it starts can be found."""

    def __init__(self) -> None:
        self._value = uuid.uuid4().hex

    @property
    def environment(self) -> dict[str, str]:
        """What marks a process, and all that it starts."""
        return {_MARK: self._value}

    def start(self, *arguments: str | os.PathLike[str], **environment: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "hintcell.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | environment | self.environment,
        )

    def run(self, *arguments: str | os.PathLike[str], **environment: str) -> tuple[int, bytes, str]:
        """Exit status, standard output and standard error."""
        with self.start(*arguments, **environment) as process:
            try:
                out, err = process.communicate(timeout=EVENT_DEADLINE_S)
            except BaseException:
                process.kill()
                raise
            return process.returncode, out, err.decode()

    def processes(self) -> list[psutil.Process]:
        """Every living process that was started by a marked one."""
        return [process for process in psutil.process_iter() if self._has_mark(process)]

    def has(self, role: Role) -> bool:
        return any(role_of(process) == role for process in self.processes())

    def _has_mark(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(_MARK) == self._value and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def role_of(process: psutil.Process) -> Role | None:
    try:
        command_line = process.cmdline()
        if "hintcell_manager" in command_line:
            return "manager"
        if "hintcell_worker.template" not in command_line:
            return None
        parent = process.parent()
        return "worker" if parent is not None and "hintcell_worker.template" in parent.cmdline() else "template"
    except psutil.Error:
        return None


def wait_until(is_true: Callable[[], bool], deadline_s: float = EVENT_DEADLINE_S) -> None:
    until = time.monotonic() + deadline_s
    while not is_true():
        assert time.monotonic() < until, "the event did not come"
        time.sleep(0.002)


def many_functions(folder: Path, count: int) -> Path:
    """A folder with so many functions, each of which matches `needle`; their JSON lines fill any pipe."""
    text = "".join(f"def a_function_with_a_long_name_{i:04}():\n    return 'needle'\n" for i in range(count))
    (folder / "many.py").write_text(text)
    return folder
