"""What each process holds, and what is on disk: a session's data is in its worker and nowhere else (I7, I9)."""

import os
import resource
import secrets
import signal
import stat
from pathlib import Path

import psutil
import pytest

from hintcell import Client, Document, SessionEnded
from hintcell_manager.protocol import CONTROL_NAME, DOOR_NAME, EVENTS_NAME, LOCK_NAME
from tests.client.searches import catalog, search
from tests.faults.processes import SOON_S, Family, Watched


def holds(pid: int, secret: bytes) -> bool:
    """Whether the secret is anywhere in the memory that the process can write."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for area in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, permissions, *_ = area.split()
            if permissions.startswith("rw"):
                start, end = (int(address, 16) for address in addresses.split("-"))
                memory.seek(start)
                if secret in memory.read(end - start):
                    return True
    return False


def test_the_data_of_a_session_is_in_its_worker_alone(shared_client: Client) -> None:
    client = shared_client
    identifier, text, query = (secrets.token_hex(16) for _ in range(3))
    documents = [Document(f"{identifier}:{number}", f"{text} {query}") for number in range(100)]
    with (
        search(client, client.grant("bob")) as before,
        search(client, client.grant("alice"), query=query, documents=documents) as session,
        search(client, client.grant("bob")) as after,
        Family(client, before, after) as family,
    ):
        for each in (before, session, after):
            each.page()
        assert holds(session.pid, identifier.encode()), "or else this test sees nothing"
        for process in family.all():
            for secret in (identifier, text, query):
                assert not holds(process.pid, secret.encode())


def test_hidden_documents_change_nothing_that_others_see(shared_client: Client) -> None:
    """Two principals, one of whom may read more: the other's page is what it is without them, to the last bit."""
    client = shared_client
    with search(client, client.grant("bob")) as session:
        alone = session.page()
    with (
        search(client, client.grant("alice"), documents=catalog(500)) as more,
        search(client, client.grant("bob")) as session,
    ):
        assert more.page().total == 500
        assert session.page() == alone


def test_a_worker_holds_three_streams_of_its_own_and_nothing_of_the_templates(shared_client: Client) -> None:
    client = shared_client
    with search(client, client.grant("alice")) as one, search(client, client.grant("bob")) as other:
        one.page()
        other.page()
        sockets: list[set[str]] = []
        for session in (one, other):
            targets = [str(entry.readlink()) for entry in Path(f"/proc/{session.pid}/fd").iterdir()]
            sockets.append({target for target in targets if target.startswith("socket:")})
            assert len(sockets[-1]) == 1, "its connection, and not the template's"
            assert {target.partition(":")[0] for target in targets} == {"socket", "pipe", "/dev/null"}
        assert sockets[0].isdisjoint(sockets[1])
        assert psutil.Process(one.pid).num_threads() == 1
        assert psutil.Process(client.status().template_pid).num_threads() == 1


def test_on_disk_there_are_three_sockets_and_an_empty_lock(client: Client, runtime: Path) -> None:
    with search(client, client.grant("alice")) as session:
        list(session)
        assert list(runtime.iterdir()) == [client.directory]
        assert stat.S_IMODE(client.directory.stat().st_mode) == 0o700
        kinds = {entry.name: entry.stat() for entry in client.directory.iterdir()}
        assert set(kinds) == {DOOR_NAME, CONTROL_NAME, EVENTS_NAME, LOCK_NAME}
        assert stat.S_ISSOCK(kinds[DOOR_NAME].st_mode)
        assert stat.S_ISSOCK(kinds[CONTROL_NAME].st_mode)
        assert stat.S_ISSOCK(kinds[EVENTS_NAME].st_mode)
        assert kinds[LOCK_NAME].st_size == 0


@pytest.mark.skipif(
    Path("/proc/sys/kernel/core_pattern").read_text()[0] in "|/", reason="cores do not go to the working directory here"
)
def test_a_crash_writes_nothing_to_disk(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("no process may dump core here")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        client = Client()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    with client, search(client, client.grant("alice")) as session, Watched(session.pid) as worker:
        session.page()
        os.kill(worker.pid, signal.SIGSEGV)
        assert worker.has_exited(SOON_S)
        with pytest.raises(SessionEnded, match="signal 11"):
            session.page()
    assert list(tmp_path.iterdir()) == []
