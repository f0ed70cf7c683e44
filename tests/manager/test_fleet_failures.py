"""Templates that do not start, processes that do not die, and a manager that is killed."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from hintcell_manager import fleet as fleet_module
from tests.manager.hold import Hold, has_children, soon
from tests.manager.own_process import command_of, in_a_process_of_its_own
from tests.manager.places import ROOT, has_exited, own_descriptors


def _executable(directory: str, script: str) -> str:
    """A program in the place of Python."""
    path = Path(directory) / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return str(path)


@in_a_process_of_its_own
async def test_a_template_that_does_not_start_is_gone_and_has_said_why() -> None:
    descriptors = own_descriptors()
    with tempfile.TemporaryDirectory() as directory:
        sys.executable = _executable(directory, "echo to stdout; echo no memory >&2; exit 1")
        hold = Hold()
        assert await soon(hold.failures) == "the template did not start: to stdout\nno memory"
        await soon(hold.burials)
    await hold.fleet.stop()
    assert not has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_template_that_cannot_even_be_executed_is_told_and_leaves_nothing_open() -> None:
    descriptors = own_descriptors()
    sys.executable = "/nowhere/python"
    hold = Hold()
    assert "No such file" in hold.failures.get_nowait()
    assert not has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_what_does_not_die_is_not_called_dead_and_not_waited_for_for_ever() -> None:
    fleet_module.BURIAL_DEADLINE_S = 0.2  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as directory:
        sys.executable = _executable(directory, "exit 0")
        undying = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - a child like any other
        hold = Hold()
        await soon(hold.failures)
        await hold.fleet.stop()
    assert hold.burials.empty()
    undying.kill()
    undying.wait()
    assert not has_children()


async def _hold_until_killed() -> None:
    """What the next test kills: a manager process with a template and a worker that answers."""
    hold = Hold()
    await soon(hold.ready)
    worker = await hold.worker(1)
    await worker.ask_one_page()
    print(json.dumps([hold.template(), worker.pid]), flush=True)
    await asyncio.Event().wait()


def _kill(pidfd: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_when_the_manager_process_is_killed_its_template_and_workers_die(stopped: bool) -> None:
    with (
        subprocess.Popen(command_of(_hold_until_killed), cwd=ROOT, stdout=subprocess.PIPE) as manager,
        contextlib.ExitStack() as at_the_end,
    ):
        at_the_end.callback(manager.kill)
        pids = json.loads(cast(BinaryIO, manager.stdout).readline())
        pidfds = [os.pidfd_open(pid) for pid in pids]
        for pidfd in pidfds:
            at_the_end.callback(os.close, pidfd)
            if stopped:  # Then they cannot notice by themselves.
                signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
                at_the_end.callback(_kill, pidfd)
        assert not any(has_exited(pidfd, within_s=0) for pidfd in pidfds)
        manager.kill()
        assert all(has_exited(pidfd) for pidfd in pidfds)
