"""A fleet of real templates and workers in this process, and everything that is heard from it."""

import asyncio
import logging
import os
import socket
from typing import TypeVar

from hintcell_manager.fleet import Fleet, Reaped
from hintcell_manager.launcher import Launcher
from hintcell_manager.linux import become_subreaper
from hintcell_manager.protocol import ManagerOptions
from hintcell_manager.stderr_tail import StderrTail
from hintcell_manager.worker_process import WorkerProcess
from hintcell_worker.template_protocol import Exited, Fork, Forked, FromTemplate
from tests.manager.places import PATIENCE_S
from tests.manager.template_process import ANSWER, REQUEST

_Message = TypeVar("_Message", Forked, Exited)
_Thing = TypeVar("_Thing")


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
        assert self.fleet.template_pid is not None
        return self.fleet.template_pid

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
                worker.process.watch(forked.pid, pidfd, worker.died.set)
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


async def soon(queue: asyncio.Queue[_Thing]) -> _Thing:
    """The next thing that comes."""
    return await asyncio.wait_for(queue.get(), PATIENCE_S)


def has_children() -> bool:
    """Whether this process has a child, alive or to be reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
