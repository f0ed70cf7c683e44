"""The template never outlives its manager, nor its workers the template; and when it cannot run, it says why."""

import socket
import subprocess
import sys

from hintcell_worker.template_protocol import Exited
from tests.manager.places import IGNORING_SIGCHLD, PATIENCE_S, has_exited
from tests.manager.template_process import MODULE, SINGLE_THREADED, a_template, ask_one_page, template_arguments


def test_the_template_and_its_workers_end_when_the_control_socket_is_closed() -> None:
    with a_template() as template:
        worker = template.ask()
        template.forked(worker)
        ask_one_page(worker)
        template.control.close()
        assert template.process.wait(PATIENCE_S) == 0
        assert has_exited(worker.pidfd)
        assert worker.connection.recv(1) == b""
        worker.close()


def test_the_workers_of_a_killed_template_die_with_it() -> None:
    with a_template() as template:
        workers = [template.ask() for _ in range(3)]
        for worker in workers:
            template.forked(worker)
        ask_one_page(workers[0])
        template.process.kill()
        for worker in workers:
            assert has_exited(worker.pidfd)
            assert worker.connection.recv(1) == b""
            worker.close()


def test_a_template_that_was_started_with_sigchld_ignored_still_reaps() -> None:
    with a_template(before=IGNORING_SIGCHLD) as template, template.worker() as worker:
        ask_one_page(worker)
        worker.connection.shutdown(socket.SHUT_WR)
        assert template.hear(Exited, worker.token).status == 0


def _start(prelude: str) -> subprocess.CompletedProcess[bytes]:
    """A template whose interpreter runs `prelude` first; its control socket is closed by its end at the latest."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        arguments = template_arguments(theirs)
        script = f"import sys; {prelude}\nfrom {MODULE[-1]} import main\nsys.exit(main())"
        return subprocess.run(
            [sys.executable, "-P", "-c", script, *arguments],
            pass_fds=[theirs.fileno()],
            env=SINGLE_THREADED,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )


def test_a_template_with_a_second_thread_does_not_run() -> None:
    ended = _start("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
    assert ended.returncode == 1
    assert b"the template has 2 threads: it must have one to fork safely" in ended.stderr


def test_a_template_without_scikit_learn_says_what_is_missing() -> None:
    ended = _start("sys.modules['sklearn'] = None")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"the template cannot start: ")
    assert b"sklearn" in ended.stderr
    assert ended.stderr.count(b"\n") == 1


_FORKS = """
import os
from hintcell_manager.linux import dies_with_us
def fork(child):
    if os.fork():
        os.wait()
    else:
        child()
        os._exit(0)
ask = dies_with_us()
def ask_and_go_on():
    ask()
    os.write(1, b"still here")
"""


def test_a_process_whose_parent_is_gone_when_it_asks_to_die_with_it_ends_at_once() -> None:
    # To a grandchild, whoever prepared this is not the parent.
    said = [
        subprocess.run([sys.executable, "-c", _FORKS + forks], capture_output=True, timeout=PATIENCE_S, check=True)
        for forks in ("fork(ask_and_go_on)", "fork(lambda: fork(ask_and_go_on))")
    ]
    assert [(each.stdout, each.stderr) for each in said] == [(b"still here", b""), (b"", b"")]
