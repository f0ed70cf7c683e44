"""A process that forks while it has a client: the child gets a clear error, the parent keeps everything.

Each test runs a script of its own, because a test runner with threads should not fork.
"""

import os
import select
import signal
import subprocess
import sys
import textwrap

import psutil

from tests.client.searches import START_S

# A promise says within a second; a machine under load is given more.
DEAD_WITHIN_S = 5.0

# `in_child` runs something in a forked child and returns what it printed; a child that hangs is killed.
_PRELUDE = """
import os, select, signal, sys, threading, time
from hintcell import *

def documents():
    return [Document(str(number), "read") for number in range(9)]

def search(client):
    return client.open(client.grant("a"), snapshot_id="s", query="read", documents=documents(), limit=2)

def told(call):
    try:
        return repr(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def in_child(call, within_s=30):
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(theirs, told(call).encode())
        os._exit(0)
    os.close(theirs)
    ended = bool(select.select([ours], [], [], within_s)[0])
    if not ended:
        os.kill(pid, signal.SIGKILL)
    answer = os.read(ours, 10_000).decode()
    os.close(ours)
    os.waitpid(pid, 0)
    return answer if ended else "it hangs"

def stand_still():
    while True:
        signal.pause()

client = Client()
session = search(client)
cursor = session.page().next_cursor
"""


def script(code: str) -> list[str]:
    return [sys.executable, "-W", "ignore", "-c", _PRELUDE + textwrap.dedent(code)]


def run(code: str) -> list[str]:
    """The lines that the script prints."""
    done = subprocess.run(script(code), capture_output=True, text=True, timeout=START_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_in_a_forked_child_every_call_of_the_client_says_to_make_a_new_one() -> None:
    lines = run("""
        events = client.events()
        for call in (
            lambda: client.grant("a"),
            lambda: search(client),
            lambda: client.permission_changed(everyone=True),
            lambda: client.status(),
            lambda: client.end_of(session.id),
            lambda: client.events(),
            lambda: next(events),
        ):
            print(in_child(call))
        client.close()
    """)
    assert lines == ["HintcellError: this client was made before a fork: make a new Client in the child"] * 7


def test_in_a_forked_child_a_session_says_to_make_a_new_client() -> None:
    lines = run("""
        for call in (lambda: session.page(), lambda: session.page(cursor), lambda: list(session)):
            print(in_child(call))
        unread = search(client)
        print(in_child(lambda: unread.page()))
        client.close()
    """)
    assert ["a new Client" in line for line in lines] == [True] * 4


def test_closing_in_a_forked_child_leaves_the_parents_sessions_alone() -> None:
    lines = run("""
        def leave():
            with client, session:
                pass
        print(in_child(leave))
        print(session.page(cursor).offset, client.status().sessions[0].session_id == session.id)
        client.close()
    """)
    assert lines == ["None", "2 True"]


def test_closing_in_a_forked_child_does_not_wait_for_a_thread_of_the_parent() -> None:
    lines = run("""
        os.kill(session.pid, signal.SIGSTOP)
        sent = threading.Event()
        reader = threading.Thread(target=lambda: (sent.set(), session.page(cursor)))
        reader.start()
        sent.wait(10)
        while session._lock.acquire(blocking=False):
            session._lock.release()
        print(in_child(session.close, within_s=5))
        os.kill(session.pid, signal.SIGCONT)
        reader.join()
        client.close()
    """)
    assert lines == ["None"]


def test_a_forked_child_may_have_a_client_of_its_own() -> None:
    lines = run("""
        def own():
            with Client() as client, search(client) as session:
                return len(list(session)), client.manager_pid
        pages, manager = eval(in_child(own))
        print(pages, manager != client.manager_pid, session.page(cursor).offset)
        client.close()
    """)
    assert lines == ["5 True 2"]


def test_a_child_forked_by_multiprocessing_exits_and_takes_nothing_along() -> None:
    lines = run("""
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=print, args=("hello",))
        child.start()
        child.join()
        print(child.exitcode, session.page(cursor).offset)
        client.close()
    """)
    assert lines == ["hello", "0 2"]


def test_a_fork_warns_of_nothing() -> None:
    code = _PRELUDE + textwrap.dedent("""
        print(in_child(lambda: None))
        session.close()
        client.close()
    """)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, timeout=START_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")


def assert_dies_with_its_client(code: str) -> None:
    """Run a script that prints the pid of a child that lives on, then pids of ours; kill the script alone."""
    with subprocess.Popen(script(code), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child, *family = (psutil.Process(int(pid)) for pid in parent.stdout.readline().split())
        pidfds = [os.pidfd_open(process.pid) for process in family]
        try:
            parent.kill()
            waiting = select.poll()
            for pidfd in pidfds:
                waiting.register(pidfd, select.POLLIN)
                assert waiting.poll(DEAD_WITHIN_S * 1_000), "a process outlives its client"
                waiting.unregister(pidfd)
            assert child.is_running()
        finally:
            child.send_signal(signal.SIGKILL)
            for pidfd in pidfds:
                os.close(pidfd)


def test_a_forked_child_that_lives_on_keeps_nothing_of_its_dead_parent_alive() -> None:
    assert_dies_with_its_client("""
        child = os.fork()
        if child == 0:
            stand_still()
        print(child, client.manager_pid, client.status().template_pid, session.pid, flush=True)
        stand_still()
    """)


def test_a_child_forked_while_a_client_was_made_does_not_keep_its_manager_alive() -> None:
    # Popen returns when the manager has been started; the client is not yet in the hook's list.
    assert_dies_with_its_client("""
        import subprocess
        started, forked, real = threading.Event(), threading.Event(), subprocess.Popen
        def popen(*args, **options):
            process = real(*args, **options)
            started.set()
            forked.wait(10)
            return process
        subprocess.Popen = popen
        made = []
        thread = threading.Thread(target=lambda: made.append(Client()))
        thread.start()
        started.wait(10)
        child = os.fork()
        if child == 0:
            stand_still()
        forked.set()
        thread.join()
        print(child, made[0].manager_pid, flush=True)
        stand_still()
    """)
