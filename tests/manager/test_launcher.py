"""The manager's hold on its template and workers: whatever is killed, every process is seen dead and reaped."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import pytest

from hintcell_manager import launcher as launcher_module
from hintcell_manager.launcher import Launcher, WorkerProcess
from hintcell_manager.linux import become_subreaper
from hintcell_manager.stderr_tail import StderrTail
from hintcell_worker.template_protocol import Exited, Fork, Forked, FromTemplate, Ready
from tests.manager.own_process import command_of, in_a_process_of_its_own
from tests.manager.places import PATIENCE_S, ROOT, has_exited, own_descriptors
from tests.manager.template_process import ANSWER, REQUEST

_Message = TypeVar("_Message", Ready, Forked, Exited)


class Hold:
    """A launcher, and what is heard from its template."""

    def __init__(self) -> None:
        become_subreaper()
        self.loop = asyncio.get_running_loop()
        self.messages: asyncio.Queue[tuple[FromTemplate, list[int]]] = asyncio.Queue()
        self.gone = asyncio.Event()
        self.times_gone = 0
        self.launcher = Launcher(
            on_message=lambda message, descriptors: self.messages.put_nowait((message, descriptors)),
            on_gone=self._gone,
        )

    def _gone(self) -> None:
        self.times_gone += 1
        self.gone.set()

    async def hear(self, kind: type[_Message]) -> tuple[_Message, list[int]]:
        message, descriptors = await asyncio.wait_for(self.messages.get(), PATIENCE_S)
        assert isinstance(message, kind), message
        return message, descriptors

    async def worker(self, token: int, *, limit: int = 1, with_pidfd: bool = True) -> "Worker":
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        tail, stderr = StderrTail.open(self.loop)
        with theirs:
            self.launcher.fork(Fork(token, limit, identifier_hints=False), theirs.fileno(), stderr)
        os.close(stderr)
        forked, (pidfd,) = await self.hear(Forked)
        assert forked.token == token
        worker = Worker(forked.pid, ours, WorkerProcess(self.launcher, token, tail))
        if with_pidfd:
            worker.process.watch(pidfd, worker.died.set)
        else:
            os.close(pidfd)
        return worker


class Worker:
    """A worker, our end of its connection, and whether its death was seen."""

    def __init__(self, pid: int, connection: socket.socket, process: WorkerProcess) -> None:
        self.pid = pid
        self.connection = connection
        self.process = process
        self.died = asyncio.Event()

    async def ask_one_page(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.connection, REQUEST)
        answer = b""
        while len(answer) < len(ANSWER):
            answer += await loop.sock_recv(self.connection, 65536)
        assert answer == ANSWER

    def close(self) -> None:
        self.connection.close()
        self.process.close()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@in_a_process_of_its_own
async def test_workers_are_forked_and_killed_and_their_ends_seen_and_the_rest_reaped_at_the_burial() -> None:
    descriptors = own_descriptors()
    hold = Hold()
    await hold.hear(Ready)
    assert os.getsid(hold.launcher.pid) == hold.launcher.pid, "a terminal's Ctrl-C is not for the template"

    worker = await hold.worker(1)
    await worker.ask_one_page()
    worker.connection.close()
    await asyncio.wait_for(worker.died.wait(), PATIENCE_S)
    exited, _ = await hold.hear(Exited)
    assert (exited.token, exited.status) == (1, 0)
    assert exited.peak_rss_bytes > 16 * 1024 * 1024
    worker.process.kill()  # It is dead, and whoever got its pid is left alone.
    worker.close()

    refusing = await hold.worker(2, limit=0)
    assert (await hold.hear(Exited))[0].status == 2
    assert refusing.process.last_words() == "hintcell-worker: --session needs --limit: use 1 to 4096\n"
    refusing.close()

    for token, with_pidfd in ((3, True), (4, False)):
        killed = await hold.worker(token, with_pidfd=with_pidfd)
        killed.process.kill()
        killed.process.kill()
        exited, _ = await hold.hear(Exited)
        assert (exited.token, exited.status) == (token, -signal.SIGKILL)
        assert await hold.loop.sock_recv(killed.connection, 1) == b""
        killed.close()

    left = [await hold.worker(5), await hold.worker(6, with_pidfd=False)]
    for worker in left:
        await worker.ask_one_page()
    assert not hold.gone.is_set()
    reaped = await hold.launcher.bury()
    assert reaped.keys() == {worker.pid for worker in left}, reaped
    assert all(status == -signal.SIGKILL for status, _ in reaped.values()), reaped
    assert all(peak > 1024 * 1024 for _, peak in reaped.values())
    assert not _has_children()
    for worker in left:
        worker.close()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_when_the_template_is_killed_its_workers_die_and_the_burial_tells_their_statuses() -> None:
    descriptors = own_descriptors()
    hold = Hold()
    await hold.hear(Ready)
    workers = [await hold.worker(token) for token in range(3)]
    for worker in workers:
        await worker.ask_one_page()
    os.kill(workers[2].pid, signal.SIGSTOP)  # A stopped process dies as well.
    os.kill(hold.launcher.pid, signal.SIGKILL)
    await asyncio.wait_for(hold.gone.wait(), PATIENCE_S)
    with pytest.raises(BrokenPipeError):
        hold.launcher.fork(Fork(9, 1, identifier_hints=False), 0, 2)
    hold.launcher.kill()

    reaped = await hold.launcher.bury()
    assert reaped.keys() == {worker.pid for worker in workers}, reaped
    assert all(status == -signal.SIGKILL for status, _ in reaped.values()), reaped
    assert all(peak > 1024 * 1024 for _, peak in reaped.values())
    assert not _has_children()
    for worker in workers:
        await asyncio.wait_for(worker.died.wait(), PATIENCE_S)
        worker.process.kill()
        worker.close()
    assert hold.times_gone == 1
    assert own_descriptors() == descriptors


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
        await asyncio.wait_for(hold.gone.wait(), PATIENCE_S)
        assert await hold.launcher.bury() == {}
    assert hold.launcher.last_words == "to stdout\nno memory\n"
    assert hold.messages.empty()
    assert not _has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_template_that_cannot_even_be_executed_is_an_error_and_leaves_nothing_open() -> None:
    descriptors = own_descriptors()
    sys.executable = "/nowhere/python"
    with pytest.raises(OSError, match="No such file"):
        Hold()
    assert not _has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_burial_does_not_wait_for_ever_for_what_does_not_die() -> None:
    launcher_module.BURIAL_DEADLINE_S = 0.2  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as directory:
        sys.executable = _executable(directory, "exit 0")
        hold = Hold()
        undying = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220 - a child like any other
        with pytest.raises(TimeoutError):
            await hold.launcher.bury()
    undying.kill()
    undying.wait()
    hold.launcher._process.wait()
    assert not _has_children()


async def _hold_until_killed() -> None:
    """What the next test kills: a manager process with a template and a worker that answers."""
    hold = Hold()
    await hold.hear(Ready)
    worker = await hold.worker(1)
    await worker.ask_one_page()
    print(json.dumps([hold.launcher.pid, worker.pid]), flush=True)
    await asyncio.Event().wait()


def test_when_the_manager_process_is_killed_its_template_and_workers_die() -> None:
    with subprocess.Popen(command_of(_hold_until_killed), cwd=ROOT, stdout=subprocess.PIPE) as manager:
        pids = json.loads(cast(BinaryIO, manager.stdout).readline())
        pidfds = [os.pidfd_open(pid) for pid in pids]
        assert not any(has_exited(pidfd, within_s=0) for pidfd in pidfds)
        manager.kill()
        assert all(has_exited(pidfd) for pidfd in pidfds)
        for pidfd in pidfds:
            os.close(pidfd)
