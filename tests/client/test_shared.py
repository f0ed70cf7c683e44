"""Several clients of one manager: each has its own sessions, and permission changes reach all of them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hintcell import Client, ManagerUnavailable, SessionEnded
from tests.client.searches import SOON_S, next_cursor, search, serving, short_directory, still_there


@pytest.fixture(scope="module")
def served() -> Iterator[Path]:
    with short_directory() as path, serving(path):
        yield path


@pytest.fixture
def clients(client_type: type[Client], served: Path) -> Iterator[tuple[Client, Client]]:
    with client_type(served) as one, client_type(served) as other:
        yield one, other


def test_clients_of_a_directory_share_one_manager(clients: tuple[Client, Client], served: Path) -> None:
    one, other = clients
    assert one.manager_pid == other.manager_pid == one.status().pid
    assert one.status().instance == other.status().instance
    assert one.directory == other.directory == served


def test_a_change_by_one_client_ends_the_sessions_of_another(clients: tuple[Client, Client], principal: str) -> None:
    one, other = clients
    with search(one, one.grant(principal)) as session, search(one, one.grant("somebody else")) as stays:
        first = session.page()
        report = other.permission_changed(principal=principal)
        assert [ended.pid for ended in report.ended] == [session.pid]
        with pytest.raises(SessionEnded, match="permission_changed"):
            session.page(next_cursor(first))
        assert stays.page().total == 50


def test_a_grant_of_one_client_opens_a_session_of_another(clients: tuple[Client, Client], principal: str) -> None:
    one, other = clients
    with search(other, one.grant(principal)) as session:
        assert session.page().total == 50
        assert session.id in {status.session_id for status in one.status().sessions}


def test_closing_one_client_leaves_the_manager_and_the_others_sessions(
    client_type: type[Client], served: Path, clients: tuple[Client, Client]
) -> None:
    one, _ = clients
    with search(one, one.grant("stays")) as stays:
        with client_type(served) as leaving:
            session = search(leaving, leaving.grant("leaves"))
            worker = psutil.Process(session.pid)
        assert psutil.wait_procs([worker], timeout=SOON_S)[1] == []
        assert one.end_of(session.id).reason == "completed"
        assert stays.page(next_cursor(stays.page())).offset == 20


_DIES = """
import os, signal, sys
from hintcell import Client, Document
client = Client(sys.argv[1])
session = client.open(client.grant("dies"), snapshot_id="s", query="a", documents=[Document("a", "a")])
session.page()
print(session.id, session.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_death_of_one_client_ends_its_sessions_and_no_others(clients: tuple[Client, Client], served: Path) -> None:
    one, _ = clients
    with search(one, one.grant("stays")) as stays:
        script = [sys.executable, "-c", _DIES, str(served)]
        died = subprocess.run(script, capture_output=True, text=True, timeout=SOON_S, check=False)
        assert died.returncode == -9
        session_id, pid = died.stdout.split()
        assert psutil.wait_procs(still_there(int(pid)), timeout=SOON_S)[1] == []
        assert one.end_of(session_id).reason == "completed"
        assert stays.page(next_cursor(stays.page())).offset == 20


def test_stopping_the_manager_ends_the_sessions_of_every_client(client_type: type[Client], directory: Path) -> None:
    with serving(directory) as manager, client_type(directory) as one, client_type(directory) as other:
        sessions = [search(client, client.grant("alice")) for client in (one, other)]
        firsts = [session.page() for session in sessions]
        manager.terminate()
        assert manager.wait(SOON_S) == 0
        for session, first in zip(sessions, firsts, strict=True):
            with pytest.raises(SessionEnded, match="manager_stopped"):
                session.page(next_cursor(first))
        for client in (one, other):
            with pytest.raises(ManagerUnavailable):
                client.grant("alice")
        with pytest.raises(ManagerUnavailable):
            client_type(directory)


def test_a_directory_that_nobody_serves_has_no_manager(client_type: type[Client], directory: Path) -> None:
    with pytest.raises(ManagerUnavailable, match="no manager serves"):
        client_type(directory)
    with pytest.raises(ManagerUnavailable, match="no manager serves"):
        client_type(directory / "missing")


def test_a_manager_that_was_given_a_relative_directory_is_found_from_anywhere(
    client_type: type[Client], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    with serving(Path("here")):
        monkeypatch.chdir("/")
        with client_type(directory / "here") as client:
            assert client.directory.is_absolute()
