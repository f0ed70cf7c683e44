"""Control over TCP: which keys may do what, and that nothing is heard or answered without one."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
import zmq.auth

from hintcell import Client, ControlFailed, HintcellError, RemoteManager
from hintcell_manager.protocol import GrantRequest, StatusRequest, encode
from hintcell_manager.remote import KeysError, Role, make_keys
from tests.client.searches import search
from tests.manager.manager_process import SERVE
from tests.manager.places import PATIENCE_S, short_directory

# How long somebody who gets nothing is given to get something: answers take milliseconds.
SILENCE_MS = 500


class Served:
    """A manager that takes control requests over TCP, and its keys."""

    def __init__(self, place: Path, endpoint: str, keys: Path) -> None:
        self.place = place
        self.endpoint = endpoint
        self.keys = keys

    def a_key(self, name: str, role: Role) -> Path:
        """The secret half of a new key."""
        return make_keys(self.keys, name, role)[1]

    def connect(self, secret: Path) -> RemoteManager:
        return RemoteManager(self.endpoint, key_file=secret, manager_key_file=self.keys / "manager.key")


@contextlib.contextmanager
def serving_remotely(place: Path, keys: Path) -> Iterator[Served]:
    command = [*SERVE, "--directory", os.fspath(place), "--control", "tcp://127.0.0.1:*", "--keys", os.fspath(keys)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as manager:
        try:
            assert manager.stderr is not None
            endpoint = ""
            for line in manager.stderr:
                if "control endpoint=" in line:
                    endpoint = line.strip().rpartition("=")[2]
                if "template ready" in line:
                    break
            assert endpoint.startswith("tcp://127.0.0.1:")
            yield Served(place, endpoint, keys)
            manager.send_signal(signal.SIGTERM)
            assert manager.wait(PATIENCE_S) == 0
        finally:
            manager.kill()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with short_directory() as place, short_directory() as keys:
        make_keys(keys, None, "observe")
        with serving_remotely(place, keys) as served:
            yield served


@pytest.fixture
def keys() -> Iterator[Path]:
    """A directory with a manager's key."""
    with short_directory() as path:
        make_keys(path, None, "observe")
        yield path


# --- who may do what ---


def test_a_key_to_revoke_changes_permissions_and_cannot_look(served: Served) -> None:
    with (
        served.connect(served.a_key("revoker", "revoke")) as remote,
        Client(served.place) as client,
        search(client, client.grant("alice")) as session,
    ):
        report = remote.permission_changed(principal="alice")
        assert [ended.session_id for ended in report.ended] == [session.id]
        with pytest.raises(ControlFailed, match="has not the role observe"):
            remote.status()
        with pytest.raises(ControlFailed, match="has not the role observe"):
            remote.end_of(session.id)


def test_a_key_to_observe_looks_and_cannot_change_permissions(served: Served) -> None:
    with (
        served.connect(served.a_key("observer", "observe")) as remote,
        Client(served.place) as client,
        search(client, client.grant("bob")) as session,
    ):
        assert session.id in {each.session_id for each in remote.status(full_memory=True).sessions}
        epoch = remote.status().epoch
        with pytest.raises(ControlFailed, match="has not the role revoke"):
            remote.permission_changed(everyone=True)
        assert remote.status().epoch == epoch
        assert session.page().total == 50
        session.close()
        assert remote.end_of(session.id).reason == "completed"


def test_a_client_may_have_both_roles_by_a_copy_of_its_key(served: Served) -> None:
    secret = served.a_key("both", "observe")
    shutil.copy(served.keys / "observe" / "both.key", served.keys / "revoke" / "both.key")
    with served.connect(secret) as remote:
        assert remote.permission_changed(principal="nobody").epoch == remote.status().epoch


def test_no_key_gives_grants(served: Served) -> None:
    with asking(served, served.a_key("asker", "observe")) as socket:
        socket.send(encode(GrantRequest("alice")))
        assert b"can observe and revoke only" in socket.recv()


# --- who may not ---


@contextlib.contextmanager
def asking(served: Served, secret: Path | None, server: Path | None = None) -> Iterator["zmq.Socket[bytes]"]:
    """A raw socket connected to the manager, with a key or without."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.rcvtimeo = PATIENCE_S * 1000
        if secret is not None:
            socket.curve_publickey, socket.curve_secretkey = zmq.auth.load_certificate(secret)
            socket.curve_serverkey, _ = zmq.auth.load_certificate(server or served.keys / "manager.key")
        socket.connect(served.endpoint)
        yield socket


def gets_nothing(socket: "zmq.Socket[bytes]") -> bool:
    socket.send(encode(StatusRequest()))
    return not socket.poll(SILENCE_MS)


def test_an_unknown_key_is_refused(served: Served, keys: Path) -> None:
    stranger = make_keys(keys, "stranger", "revoke")[1]
    with served.connect(stranger) as remote, pytest.raises(ControlFailed, match="refused this key"):
        remote.permission_changed(everyone=True)


def test_a_connection_without_a_key_gets_nothing(served: Served) -> None:
    with asking(served, None) as socket:
        assert gets_nothing(socket)


def test_a_plain_connection_that_speaks_other_protocols_does_no_harm(served: Served) -> None:
    observer = served.a_key("witness", "observe")
    with asking(served, None) as socket:
        socket.plain_username, socket.plain_password = b"admin", b"admin"
        assert gets_nothing(socket)
    with served.connect(observer) as remote:
        assert remote.status().instance


def test_a_client_that_expects_another_manager_gets_nothing(served: Served, keys: Path) -> None:
    with asking(served, served.a_key("misled", "observe"), keys / "manager.key") as socket:
        assert gets_nothing(socket)


def test_a_key_that_is_removed_is_refused_at_once_also_on_a_connection_that_stands(served: Served) -> None:
    secret = served.a_key("leaver", "observe")
    with asking(served, secret) as socket:
        socket.send(encode(StatusRequest()))
        assert b'"type":"status"' in socket.recv()
        (served.keys / "observe" / "leaver.key").unlink()
        socket.send(encode(StatusRequest()))
        assert b"has not the role observe" in socket.recv()
    with served.connect(secret) as remote, pytest.raises(ControlFailed, match="refused this key"):
        remote.status()


# --- files of keys ---


def test_secret_halves_are_their_owner_s_alone(keys: Path) -> None:
    public, secret = make_keys(keys, "alice", "observe")
    assert (public, secret) == (keys / "observe" / "alice.key", keys / "clients" / "alice.key_secret")
    for path in (secret, keys / "manager.key_secret"):
        assert path.stat().st_mode & 0o077 == 0
    assert b"secret" not in public.read_bytes().partition(b"curve")[2]


@pytest.mark.parametrize("name", ["", "../alice", "a b", "x" * 65, "a/b", "."])
def test_a_name_that_is_no_file_name_gets_no_key(keys: Path, name: str) -> None:
    with pytest.raises(KeysError, match="letters, digits"):
        make_keys(keys, name, "observe")


def test_no_key_is_overwritten(keys: Path) -> None:
    make_keys(keys, "alice", "observe")
    with pytest.raises(KeysError, match="alice has a key already"):
        make_keys(keys, "alice", "revoke")
    with pytest.raises(KeysError, match="manager's key already"):
        make_keys(keys, None, "observe")


def test_a_client_s_key_needs_a_manager_s_first(place: Path) -> None:
    with pytest.raises(KeysError, match="make one with `hintcell keys`"):
        make_keys(place, "alice", "observe")


def test_the_public_half_is_no_key_to_connect_with(keys: Path) -> None:
    public, secret = make_keys(keys, "alice", "observe")
    with pytest.raises(HintcellError, match="ends in .key_secret"):
        RemoteManager("tcp://127.0.0.1:1", key_file=public, manager_key_file=keys / "manager.key")
    with pytest.raises(HintcellError, match="holds no key"):
        RemoteManager("tcp://127.0.0.1:1", key_file=secret, manager_key_file=keys / "missing.key")


# --- starting ---


def refused_start(place: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [*SERVE, "--directory", os.fspath(place), *map(os.fspath, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("hintcell manager: ")
    return done.stderr


def test_without_keys_nothing_listens_on_tcp(place: Path) -> None:
    message = refused_start(place, "--control", "tcp://127.0.0.1:*")
    assert "--control needs --keys: without keys, nothing listens on TCP" in message


def test_a_directory_without_a_manager_s_key_does_not_start(place: Path) -> None:
    message = refused_start(place, "--control", "tcp://127.0.0.1:*", "--keys", place)
    assert "make one with `hintcell keys`" in message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_secret_that_others_can_read_does_not_start(place: Path, keys: Path, mode: int) -> None:
    (keys / "manager.key_secret").chmod(mode)
    message = refused_start(place, "--control", "tcp://127.0.0.1:*", "--keys", keys)
    assert "manager.key_secret is open to other users: run chmod 600" in message


def test_an_address_that_cannot_be_listened_at_is_told(place: Path, keys: Path) -> None:
    message = refused_start(place, "--control", "tcp://192.0.2.1:5555", "--keys", keys)
    assert "cannot listen at tcp://192.0.2.1:5555" in message
    assert not [path for path in place.iterdir() if path.is_socket()]
