"""The manager's hold on its templates and workers: whatever is killed, every process is seen dead and reaped."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from hintcell_manager import fleet as fleet_module
from hintcell_manager.fleet import Fleet, Reaped
from hintcell_manager.launcher import Launcher
from hintcell_manager.linux import become_subreaper
from hintcell_manager.protocol import ManagerOptions
from hintcell_manager.stderr_tail import StderrTail
from hintcell_manager.worker_process import WorkerProcess
from hintcell_worker.template_protocol import Exited, Fork, Forked, FromTemplate
from tests.manager.own_process import command_of, in_a_process_of_its_own
from tests.manager.places import PATIENCE_S, ROOT, has_exited, own_descriptors
from tests.manager.template_process import ANSWER, REQUEST

_Message = TypeVar("_Message", Forked, Exited)


class Hold:
    """A fleet, and what is heard from it."""

    def __init__(self, options: ManagerOptions | None = None) -> None:
        become_subreaper()
        logging.disable()  # What it logs would be taken for an error of the scene.
        self.loop = asyncio.get_running_loop()
        self.messages: asyncio.Queue[tuple[FromTemplate, list[int]]] = asyncio.Queue()
        self.ready: asyncio.Queue[Launcher] = asyncio.Queue()
        self.failures: asyncio.Queue[str] = asyncio.Queue()
        self.burials: asyncio.Queue[tuple[dict[int, int | None], Reaped]] = asyncio.Queue()
        self.fleet = Fleet(
            options or ManagerOptions(),
            on_ready=lambda: self.ready.put_nowait(self.current()),
            on_message=lambda message, descriptors: self.messages.put_nowait((message, descriptors)),
            on_buried=lambda workers, reaped: self.burials.put_nowait((dict(workers), dict(reaped))),
            on_failed=self.failures.put_nowait,
        )
        self.fleet.start()

    def current(self) -> Launcher:
        assert self.fleet.current is not None
        return self.fleet.current

    def template(self) -> int:
        return self.fleet.template_pids()[0]

    async def hear(self, kind: type[_Message]) -> tuple[_Message, list[int]]:
        message, descriptors = await asyncio.wait_for(self.messages.get(), PATIENCE_S)
        assert isinstance(message, kind), message
        return message, descriptors

    async def worker(self, token: int, *, limit: int = 1, with_pidfd: bool = True) -> "Worker":
        launcher = self.current()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        tail, stderr = StderrTail.open(self.loop)
        with theirs:
            launcher.fork(Fork(token, limit, identifier_hints=False), theirs.fileno(), stderr)
        os.close(stderr)
        forked, pidfds = await self.hear(Forked)
        assert forked.token == token
        worker = Worker(forked.pid, ours, WorkerProcess(launcher, token, tail))
        for pidfd in pidfds:
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


async def soon(queue: "asyncio.Queue[_Thing]") -> "_Thing":
    return await asyncio.wait_for(queue.get(), PATIENCE_S)


_Thing = TypeVar("_Thing")


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


@in_a_process_of_its_own
async def test_workers_are_forked_and_killed_and_their_ends_seen_and_the_rest_reaped_at_the_end() -> None:
    descriptors = own_descriptors()
    hold = Hold()
    await soon(hold.ready)
    assert os.getsid(hold.template()) == hold.template(), "a terminal's Ctrl-C is not for the template"

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
    await hold.fleet.stop()
    workers, reaped = hold.burials.get_nowait()
    assert workers == {5: left[0].pid, 6: left[1].pid}
    for worker in left:
        status, peak = reaped[worker.pid]
        assert status == -signal.SIGKILL
        assert peak > 1024 * 1024
        worker.close()
    assert not _has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_when_the_template_is_killed_its_workers_are_reaped_and_another_takes_its_place() -> None:
    descriptors = own_descriptors()
    hold = Hold()
    await soon(hold.ready)
    template = hold.template()
    workers = [await hold.worker(token) for token in range(3)]
    for worker in workers:
        await worker.ask_one_page()
    os.kill(workers[2].pid, signal.SIGSTOP)  # A stopped process dies as well.
    os.kill(template, signal.SIGKILL)
    told, reaped = await soon(hold.burials)
    assert told == {token: worker.pid for token, worker in enumerate(workers)}
    for worker in workers:
        status, peak = reaped[worker.pid]
        assert status == -signal.SIGKILL
        assert peak > 1024 * 1024
        await asyncio.wait_for(worker.died.wait(), PATIENCE_S)
        worker.process.kill()
        worker.close()
    await soon(hold.ready)
    assert hold.template() != template
    again = await hold.worker(9)
    await again.ask_one_page()
    again.close()
    await hold.fleet.stop()
    assert not _has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_template_that_has_forked_enough_is_retired_and_stays_until_its_last_worker_ends() -> None:
    hold = Hold(ManagerOptions(template_max_forks=1))
    await soon(hold.ready)
    first = hold.template()
    worker = await hold.worker(1)
    hold.fleet.look_at_age()
    assert hold.template() == first, "until its successor is ready, it goes on forking"
    await soon(hold.ready)
    assert hold.template() != first
    assert first in hold.fleet.template_pids()
    await worker.ask_one_page()
    worker.connection.close()
    await hold.hear(Exited)
    await soon(hold.burials)
    assert first not in hold.fleet.template_pids()
    worker.close()
    await hold.fleet.stop()
    assert not _has_children()


@in_a_process_of_its_own
async def test_a_burial_leaves_the_workers_of_other_templates_alone() -> None:
    hold = Hold(ManagerOptions(template_max_forks=1))
    await soon(hold.ready)
    old = await hold.worker(1)
    hold.fleet.look_at_age()
    await soon(hold.ready)
    young = await hold.worker(2)
    os.kill(hold.template(), signal.SIGKILL)
    told, reaped = await soon(hold.burials)
    assert told == {2: young.pid}
    assert reaped[young.pid][0] == -signal.SIGKILL
    await old.ask_one_page()
    old.close()
    young.close()
    await hold.fleet.stop()
    assert not _has_children()


@in_a_process_of_its_own
async def test_a_fresh_interpreter_for_each_worker_answers_and_dies_like_a_forked_one() -> None:
    descriptors = own_descriptors()
    hold = Hold(ManagerOptions(launcher="exec"))
    await soon(hold.ready)
    assert hold.fleet.template_pids() == []
    worker = await hold.worker(1)
    await worker.ask_one_page()
    worker.process.kill()
    exited, _ = await hold.hear(Exited)
    assert (exited.token, exited.status) == (1, -signal.SIGKILL)
    worker.close()
    left = await hold.worker(2)
    await left.ask_one_page()
    await hold.fleet.stop()
    left.close()
    assert not _has_children()
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
        assert await soon(hold.failures) == "the template did not start: to stdout\nno memory"
        await soon(hold.burials)
    await hold.fleet.stop()
    assert not _has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_template_that_cannot_even_be_executed_is_told_and_leaves_nothing_open() -> None:
    descriptors = own_descriptors()
    sys.executable = "/nowhere/python"
    hold = Hold()
    assert "No such file" in hold.failures.get_nowait()
    assert not _has_children()
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
    assert not _has_children()


async def _hold_until_killed() -> None:
    """What the next test kills: a manager process with a template and a worker that answers."""
    hold = Hold()
    await soon(hold.ready)
    worker = await hold.worker(1)
    await worker.ask_one_page()
    print(json.dumps([hold.template(), worker.pid]), flush=True)
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
