"""A manager process from its start to its end: what it waits for, who takes over, and what is left behind."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell_manager.protocol import (
    Admitted,
    Attached,
    ChangeReport,
    OpenRequest,
    PermissionChange,
    Refused,
)
from tests.manager.manager_process import SERVE, a_manager, answer_at
from tests.manager.places import IGNORING_SIGCHLD, PATIENCE_S, has_exited
from tests.manager.template_process import ANSWER, REQUEST


def _sockets(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_socket())


def _run(directory: Path) -> subprocess.CompletedProcess[str]:
    """A manager that cannot start."""
    return subprocess.run(
        [*SERVE, "--directory", os.fspath(directory)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


# --- starting ---


def test_a_second_manager_in_a_directory_says_so_and_the_first_serves_on(place: Path) -> None:
    with a_manager(place, until="serving") as manager:
        second = _run(place)
        assert (second.returncode, second.stdout) == (2, "")
        assert second.stderr == (
            f"hintcell manager: another manager serves {place}: stop it or choose another directory\n"
        )
        assert manager.status().pid == manager.pid


@pytest.mark.parametrize(
    ("name", "mode", "message"),
    [
        ("open", 0o755, "open is open to other users: run chmod 700 on it or choose another directory"),
        ("d" * 100, 0o700, "Linux allows 107, choose a shorter directory"),
    ],
)
def test_a_directory_that_cannot_be_used_ends_the_manager_in_one_line(
    place: Path, name: str, mode: int, message: str
) -> None:
    (place / name).mkdir()
    (place / name).chmod(mode)
    ended = _run(place / name)
    assert ended.returncode == 2
    assert ended.stderr.startswith("hintcell manager: ")
    assert ended.stderr.endswith(f"{message}\n")
    assert ended.stderr.count("\n") == 1


def test_who_opens_before_the_template_is_ready_is_served_when_it_is(place: Path) -> None:
    with a_manager(place, until="serving") as manager:
        grant = manager.grant()
        early = [manager.knock(OpenRequest(grant, "s1", limit=1)) for _ in range(40)]
        admitted = [answer_at(connection) for connection in early]
        assert all(isinstance(reply, Admitted) for reply in admitted), admitted
        assert len({reply.pid for reply in admitted if isinstance(reply, Admitted)}) == 40
        for connection in early:
            connection.sendall(REQUEST)
        for connection in early:
            with connection, connection.makefile("rb") as answers:
                assert answers.readline() == ANSWER


def test_no_worker_is_forked_for_visitors_who_left_before_the_template_was_ready(place: Path) -> None:
    with a_manager(place, until="serving") as manager:
        grant = manager.grant()
        for _ in range(10):
            manager.knock(OpenRequest(grant, "s1", limit=1)).close()
        with manager.knock(OpenRequest(grant, "s1", limit=1)) as stays:
            assert isinstance(answer_at(stays), Admitted)
            status = manager.status()
        assert (status.opened, len(status.sessions), status.refused) == (1, 1, {})


def _with_sklearn(place: Path, script: str) -> dict[str, str]:
    """The environment of a manager whose template loads this in the place of scikit-learn."""
    (place / "sklearn.py").write_text(script)
    return {"PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])}


_FOR_EVER = "import time; time.sleep(600)"


def test_a_change_before_the_template_is_ready_is_answered_at_once_and_refuses_whom_it_matches(place: Path) -> None:
    with a_manager(place / "run", environment=_with_sklearn(place, _FOR_EVER), until="serving") as manager:
        alice, bob = (manager.knock(OpenRequest(manager.grant(name), "s1", limit=1)) for name in ("alice", "bob"))
        with alice, bob:
            manager.wait_for_sessions(2)
            report = manager.ask(PermissionChange("alice"), ChangeReport)
            assert [ended.pid for ended in report.ended] == [None]
            assert answer_at(alice) == Refused("permission_changed", "permissions changed")
            assert [session.principal for session in manager.status().sessions] == ["bob"]
            assert manager.end(report.ended[0].session_id).reason == "permission_changed"


def test_a_template_that_cannot_start_is_told_in_its_own_words_at_each_try(place: Path) -> None:
    broken = _with_sklearn(place, "raise ImportError('no such thing here')")
    with a_manager(place / "run", environment=broken, until="did not start") as manager:
        for _ in range(2):
            refused = manager.refusal(OpenRequest(manager.grant(), "s1", limit=1))
            assert refused == Refused(
                "cannot_start", "the template did not start: the template cannot start: no such thing here"
            )
        assert manager.status().template_pid is None


# --- losing the template ---


def test_when_the_template_is_killed_its_sessions_end_and_another_serves(place: Path) -> None:
    with a_manager(place, before=IGNORING_SIGCHLD) as manager:
        first = manager.status().template_pid
        assert first is not None
        with manager.session() as one, manager.session() as two:
            one.ask_one_page()
            two.ask_one_page()
            os.kill(first, signal.SIGKILL)
            for session in (one, two):
                assert session.connection.recv(1) == b""
                assert has_exited(session.pidfd)
                end = manager.end(session.id)
                assert (end.reason, end.exit_status) == ("crashed", -9), "reaped, although SIGCHLD came in ignored"
        manager.wait_for_log("template ready")
        with manager.session() as session:
            session.ask_one_page()
            assert manager.status().template_pid not in {None, first}
        assert not Path(f"/proc/{first}").exists()


def test_who_waits_for_a_new_template_is_not_refused_when_a_retired_one_says_something(place: Path) -> None:
    options = '{"type":"manager_options","template_max_forks":1,"sample_interval_s":0.02}'
    with a_manager(place, options=options) as manager:
        first = manager.status().template_pid
        with manager.session() as session:
            session.ask_one_page()
            while (second := manager.status().template_pid) == first:
                pass  # Each question is an event that lets the manager get on, as in `wait_for_sessions`.
            assert second is not None
            os.kill(second, signal.SIGKILL)
            while manager.status().template_pid == second:
                pass
            waiting = manager.knock(OpenRequest(manager.grant(), "s1", limit=1))
            manager.wait_for_sessions(2)
        with waiting:
            assert isinstance(answer_at(waiting), Admitted)


# --- stopping ---


def test_a_stopped_manager_ends_its_sessions_and_leaves_no_process_and_no_socket(place: Path) -> None:
    with a_manager(place) as manager, manager.session() as session:
        session.ask_one_page()
        template = manager.status().template_pid
        assert template is not None
        pidfd = os.pidfd_open(template)
        assert _sockets(place) == ["control", "door", "events"]
        manager.process.send_signal(signal.SIGTERM)
        assert manager.process.wait(PATIENCE_S) == 0
        assert session.has_hung_up()
        assert has_exited(session.pidfd, within_s=0)
        assert has_exited(pidfd, within_s=0)
        os.close(pidfd)
        assert not Path(f"/proc/{session.pid}").exists()
        assert not Path(f"/proc/{template}").exists()
        assert [path.name for path in place.iterdir()] == ["lock"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_manager_stopped_before_its_template_is_ready_refuses_who_waits_and_leaves_nothing(
    place: Path, number: signal.Signals
) -> None:
    directory = place / "run"
    with a_manager(directory, environment=_with_sklearn(place, _FOR_EVER), until="serving") as manager:
        with manager.knock(OpenRequest(manager.grant(), "s1", limit=1)) as waiting:
            template = manager.wait_for_sessions(1).template_pid
            manager.process.send_signal(number)
            assert answer_at(waiting) == Refused("manager_stopped", "the manager was stopped")
        assert manager.process.wait(PATIENCE_S) == 0
        assert not Path(f"/proc/{template}").exists()
        assert _sockets(directory) == []


def test_after_a_kill_nothing_lives_and_the_next_manager_takes_over_and_knows_no_old_grant(place: Path) -> None:
    with a_manager(place) as killed, killed.session() as session:
        session.ask_one_page()
        grant = killed.grant()
        template = killed.status().template_pid
        assert template is not None
        pidfd = os.pidfd_open(template)
        killed.process.kill()
        killed.process.wait(PATIENCE_S)
        assert has_exited(pidfd)
        os.close(pidfd)
        assert has_exited(session.pidfd)
        assert session.connection.recv(1) == b""
        assert _sockets(place) == ["control", "door", "events"], "it had no time to clean up"
    with a_manager(place) as manager:
        refused = manager.refusal(OpenRequest(grant, "s1", limit=1))
        assert refused.reason == "unknown_grant"
        with manager.session() as session:
            session.ask_one_page()
    assert _sockets(place) == []


# --- a manager that is private to a client ---


@contextlib.contextmanager
def _private(place: Path) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A manager that is private to us, and our end of its lifeline."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE_S)
    with ours:
        with theirs:
            process = subprocess.Popen(
                [*SERVE, "--private-to", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=os.environ | {"XDG_RUNTIME_DIR": str(place)},
                stderr=subprocess.PIPE,
            )
        with process:
            try:
                yield process, ours
            finally:
                process.kill()


def test_a_private_manager_says_where_it_is_and_goes_with_its_client(place: Path) -> None:
    with _private(place) as (process, ours):
        attached = answer_at(ours)
        assert isinstance(attached, Attached)
        directory = Path(attached.directory)
        assert (attached.pid, directory.parent) == (process.pid, place)
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert _sockets(directory) == ["control", "door", "events"]
        ours.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.communicate()[1] == b""
    assert list(place.iterdir()) == []


def test_a_private_manager_that_cannot_start_tells_its_client(place: Path) -> None:
    with _private(place / "nowhere") as (process, ours):
        refused = answer_at(ours)
        assert isinstance(refused, Refused)
        assert refused.reason == "cannot_start"
        assert "set XDG_RUNTIME_DIR" in refused.message
        assert process.wait(PATIENCE_S) == 2
        assert process.communicate()[1] == b"", "the client says it"


# --- what must not stop it ---


def test_json_nested_too_deeply_is_refused_and_stops_nothing(place: Path) -> None:
    deep = b'{"a":' + b"[" * 60_000
    with a_manager(place, until="serving") as manager:
        assert manager.refusal(deep + b"\n").reason == "bad_request"
        assert "did not understand" in getattr(manager.say(deep), "message", "")
        assert manager.process.poll() is None
