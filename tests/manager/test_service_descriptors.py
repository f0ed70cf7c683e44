"""A manager that has no free descriptor says so to whoever comes, keeps what it has, and serves again later."""

import contextlib
import os
import resource
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hintcell_manager.door import SPARE_DESCRIPTORS
from hintcell_manager.protocol import (
    Admitted,
    Attach,
    Attached,
    ChangeReport,
    Failure,
    GrantRequest,
    OpenRequest,
    PermissionChange,
    Refused,
    StatusRequest,
    encode,
)
from tests.manager.manager_process import ManagerProcess, a_manager, answer_at
from tests.manager.places import descriptor_limit, open_descriptors, short_directory


class _Idle(NamedTuple):
    """A manager, and the descriptors that it has while nobody is there."""

    manager: ManagerProcess
    descriptors: set[int]


# The manager refuses sessions long before its last descriptor; here it shall come to its last.
_SPARE_NONE = """
import sys
if "serve" in sys.orig_argv:
    import hintcell_manager.door
    hintcell_manager.door.SPARE_DESCRIPTORS = 0
"""


@pytest.fixture(scope="module")
def idle() -> Iterator[_Idle]:
    with short_directory() as directory, tempfile.TemporaryDirectory() as patches:
        (Path(patches) / "sitecustomize.py").write_text(_SPARE_NONE)
        path = os.pathsep.join([patches, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        with a_manager(directory, environment={"PYTHONPATH": path}) as manager:
            yield _idle(manager)


def _idle(manager: ManagerProcess) -> _Idle:
    manager.status()
    return _Idle(manager, set(open_descriptors(manager.pid)))


@pytest.fixture
def manager(idle: _Idle) -> ManagerProcess:
    """The manager, when it has let go of whatever was there before."""
    while open_descriptors(idle.manager.pid).keys() != idle.descriptors:
        idle.manager.status()
    return idle.manager


@contextlib.contextmanager
def _free_descriptors(manager: ManagerProcess, free: int) -> Iterator[None]:
    """While the manager can open so many more."""
    manager.status()  # It has finished whatever it was doing when it answered before.
    limits = resource.prlimit(manager.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(manager.pid, resource.RLIMIT_NOFILE, (descriptor_limit(manager.pid, free=free), limits[1]))
    try:
        yield
    finally:
        resource.prlimit(manager.pid, resource.RLIMIT_NOFILE, limits)


def test_without_a_free_descriptor_visitors_are_told_and_a_session_goes_on(manager: ManagerProcess) -> None:
    grant = manager.grant()
    with manager.session(grant) as session:
        session.ask_one_page()
        with _free_descriptors(manager, 0):
            told = Refused(
                "cannot_start",
                "the manager has few free descriptors left: close sessions, or raise its limit (ulimit -n)",
            )
            for _ in range(3):
                assert manager.refusal(Attach()) == told
                assert manager.refusal(OpenRequest(grant, "s1", limit=1)) == told
            session.connection.sendall(b"\n")
            assert session.connection.recv(1) == b"", "the worker has answered to its end"
        assert manager.end(session.id).reason == "rejected"
    with manager.session(grant) as session:
        session.ask_one_page()


@pytest.mark.parametrize("free", [1, 2])
def test_with_too_few_descriptors_for_a_worker_a_session_is_refused_and_nothing_leaks(
    manager: ManagerProcess, free: int
) -> None:
    grant = manager.grant()
    before = open_descriptors(manager.pid)
    with _free_descriptors(manager, free):
        refused = manager.refusal(OpenRequest(grant, "s1", limit=1))
        assert refused == Refused("cannot_start", "cannot start a worker: Too many open files")
    assert open_descriptors(manager.pid).keys() <= before.keys()


def test_a_worker_whose_pidfd_got_lost_is_killed_all_the_same(manager: ManagerProcess) -> None:
    grant = manager.grant()
    template = manager.status().template_pid
    assert template is not None
    with _free_descriptors(manager, 3):
        os.kill(template, signal.SIGSTOP)
        session = manager.knock(OpenRequest(grant, "s5", limit=1))
        manager.wait_for_sessions(1)
        with session, manager.knock(Attach()) as taking_the_last_descriptor:
            assert isinstance(answer_at(taking_the_last_descriptor), Attached)
            os.kill(template, signal.SIGCONT)
            assert isinstance(answer_at(session), Admitted)
            assert "anon_inode:[pidfd]" not in open_descriptors(manager.pid).values()
            (ended,) = manager.ask(PermissionChange(snapshot_id="s5"), ChangeReport).ended
            assert not Path(f"/proc/{ended.pid}").exists()
            assert session.recv(1) == b""
    assert manager.end(ended.session_id).exit_status == -signal.SIGKILL


def test_control_requests_that_need_a_descriptor_fail_in_words_and_others_are_served(manager: ManagerProcess) -> None:
    with _free_descriptors(manager, 0):
        failure = manager.ask(StatusRequest(), Failure)
        assert failure.message == "the manager cannot do it now: Too many open files"
        assert manager.grant().principal == "alice"
    assert manager.status().memory.state == "measured"


def test_sessions_do_not_take_the_last_descriptors_that_control_connections_need(place: Path) -> None:
    # Without one, libzmq aborts the process that accepts a connection; every worker would die with it.
    with a_manager(place) as manager:
        grant = manager.grant()
        with _free_descriptors(manager, SPARE_DESCRIPTORS - 5):
            refused = manager.refusal(OpenRequest(grant, "s1", limit=1))
            assert refused.reason == "cannot_start"
            assert "few free descriptors left" in refused.message
            with contextlib.ExitStack() as connections:
                for _ in range(20):
                    control = connections.enter_context(manager.control())
                    control.send(encode(GrantRequest("alice")))
                    control.recv()
        with manager.session(grant) as session:
            session.ask_one_page()


def test_everybody_who_waits_is_answered_when_no_worker_can_be_started(place: Path) -> None:
    never = '{"sample_interval_s":600}'  # Looking after everybody now and then would hide that nobody was called.
    with a_manager(place, options=never, until="serving") as manager, contextlib.ExitStack() as connections:
        grant = manager.grant()
        waiting = [connections.enter_context(manager.knock(OpenRequest(grant, "s1", limit=1))) for _ in range(20)]
        manager.wait_for_sessions(20)
        limits = resource.prlimit(manager.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(manager.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        manager.wait_for_log("template ready")
        for connection in waiting:
            assert isinstance(answer_at(connection), Refused)
