"""The template forks workers that have nothing of it or of each other, and reports their ends."""

import contextlib
import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell_worker.protocol import Limits
from hintcell_worker.template_protocol import Exited, Fork, ForkFailed, Kill
from tests.manager.places import PATIENCE_S, descriptor_limit, has_exited, open_descriptors
from tests.manager.template_process import REQUEST, TemplateProcess, ask_one_page, last_words


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


# --- a worker's life ---


def test_a_worker_answers_on_its_connection_and_its_end_is_seen_and_told(template: TemplateProcess) -> None:
    with template.worker() as worker:
        ask_one_page(worker)
        assert worker.pidfd >= 0
        assert not has_exited(worker.pidfd, within_s=0)
        worker.connection.shutdown(socket.SHUT_WR)
        assert has_exited(worker.pidfd)
        exited = template.hear(Exited, worker.token)
        assert exited.status == 0
        assert exited.peak_rss_bytes > 16 * 1024 * 1024, "in bytes, shared pages included"
        assert worker.connection.recv(1) == b""
        assert last_words(worker) == ""
        assert not Path(f"/proc/{worker.pid}").exists(), "it is reaped"


def test_a_worker_that_refuses_its_input_ends_with_status_2_and_says_why(template: TemplateProcess) -> None:
    with template.worker(limits=Limits(max_documents=2)) as worker:
        worker.connection.sendall(REQUEST)
        assert template.hear(Exited, worker.token).status == 2
        assert last_words(worker) == "hintcell-worker: there are 3 documents: at most 2 are allowed\n"


def test_flags_that_contradict_each_other_end_the_worker_and_not_the_template(template: TemplateProcess) -> None:
    with template.worker(limit=0) as worker:
        assert template.hear(Exited, worker.token).status == 2
        assert "--session needs --limit" in last_words(worker)
    with template.worker() as worker:
        ask_one_page(worker)
    assert template.hear(Exited, worker.token).status == 0


def test_a_worker_is_killed_by_its_token_and_others_live_on(template: TemplateProcess) -> None:
    with template.worker() as killed, template.worker() as other:
        template.send(Kill(killed.token))
        assert template.hear(Exited, killed.token).status == -signal.SIGKILL
        ask_one_page(other)
    assert template.hear(Exited, other.token).status == 0


def test_a_kill_of_nobody_is_no_harm(template: TemplateProcess) -> None:
    with template.worker() as worker:
        worker.connection.shutdown(socket.SHUT_WR)
        template.hear(Exited, worker.token)
    template.send(Kill(worker.token))
    template.send(Kill(10**9))
    with template.worker() as worker:
        ask_one_page(worker)
    template.hear(Exited, worker.token)


def test_a_killed_workers_connection_hangs_up_because_nobody_else_holds_its_end(template: TemplateProcess) -> None:
    with template.worker() as worker, template.worker() as other:
        ask_one_page(worker)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.connection.recv(1) == b""
        assert last_words(worker) == ""
        assert template.hear(Exited, worker.token).status == -signal.SIGKILL
        ask_one_page(other)
    template.hear(Exited, other.token)


def test_many_workers_at_once_each_end_with_their_own_status(template: TemplateProcess) -> None:
    workers = [template.ask(limit=limit) for limit in (1, 0, 5000, 2) * 10]
    for worker in workers:
        template.forked(worker)
        worker.connection.shutdown(socket.SHUT_WR)
    assert len({worker.pid for worker in workers}) == 40
    statuses = [template.hear(Exited, worker.token).status for worker in workers]
    assert statuses == [2] * 40, "an empty input is refused, and so are bad limits"
    messages = [last_words(worker) for worker in workers]
    assert messages[:4] == messages[4:8]
    assert "--limit is 5000" in messages[2]
    assert "input is empty" in messages[3]
    for worker in workers:
        worker.close()


# --- what a worker and the template hold ---


def test_the_template_has_one_thread_before_and_after_it_forks(template: TemplateProcess) -> None:
    assert _threads(template.pid) == 1
    with template.worker() as worker:
        ask_one_page(worker)
        assert _threads(template.pid) == 1
        assert _threads(worker.pid) == 1
    template.hear(Exited, worker.token)


def test_a_worker_has_its_connection_and_its_standard_error_and_no_other_descriptor(template: TemplateProcess) -> None:
    with template.worker() as neighbour, template.worker() as worker:
        ask_one_page(worker)
        pipe = f"pipe:[{os.fstat(worker.stderr.fileno()).st_ino}]"
        held = open_descriptors(worker.pid)
        assert (held.pop(0), held.pop(1), held.pop(2)) == ("/dev/null", pipe, pipe)
        ends = set(held.values())
        assert len(ends) == 1, f"two descriptors of one connection: {held}"
        assert ends.pop().startswith("socket:")
        of_the_others = set(open_descriptors(template.pid).values()) | set(open_descriptors(neighbour.pid).values())
        assert of_the_others.isdisjoint(held.values())
    for ended in (neighbour, worker):
        template.hear(Exited, ended.token)


def test_the_template_keeps_no_descriptor_of_its_workers(template: TemplateProcess) -> None:
    template.finish()
    before = open_descriptors(template.pid)
    with template.worker() as worker:
        ask_one_page(worker)
        for options in ({"limit": 1}, {"limit": 0}, {"limit": 1, "session": False}):
            with template.worker(**options) as other:
                template.finish()
                assert open_descriptors(template.pid) == before
            template.hear(Exited, other.token)
    template.hear(Exited, worker.token)
    assert open_descriptors(template.pid) == before


# --- requests that cannot be met ---


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_request_without_its_two_descriptors_fails_and_leaves_none_behind(
    template: TemplateProcess, count: int
) -> None:
    template.finish()
    before = open_descriptors(template.pid)
    token = 10**6 + count
    ours, theirs = socket.socketpair()
    with ours, theirs:
        template.send(Fork(token, 1, identifier_hints=False), [theirs.fileno()] * count)
        assert "no free descriptors" in template.hear(ForkFailed, token).message
        theirs.close()
        ours.settimeout(PATIENCE_S)
        assert ours.recv(1) == b"", "the template has closed what it got"
    assert open_descriptors(template.pid) == before


@contextlib.contextmanager
def _free_descriptors(template: TemplateProcess, free: int) -> Iterator[None]:
    template.finish()
    limits = resource.prlimit(template.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(template.pid, resource.RLIMIT_NOFILE, (descriptor_limit(template.pid, free=free), limits[1]))
    try:
        yield
    finally:
        resource.prlimit(template.pid, resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("free", [0, 1])
def test_a_template_that_cannot_take_both_descriptors_says_so_and_serves_later(
    template: TemplateProcess, free: int
) -> None:
    with _free_descriptors(template, free):
        before = open_descriptors(template.pid)
        worker = template.ask()
        message = template.hear(ForkFailed, worker.token).message
        assert message == "the template has no free descriptors: close sessions or raise the limit"
        assert worker.connection.recv(1) == b""
        worker.close()
        assert open_descriptors(template.pid) == before
    with template.worker() as worker:
        assert worker.pidfd >= 0
        ask_one_page(worker)
    template.hear(Exited, worker.token)


def test_a_template_without_a_descriptor_for_a_pidfd_forks_without_it(template: TemplateProcess) -> None:
    with _free_descriptors(template, 2), template.worker() as worker:
        assert worker.pidfd == -1
        ask_one_page(worker)
        template.send(Kill(worker.token))
        assert template.hear(Exited, worker.token).status == -signal.SIGKILL
