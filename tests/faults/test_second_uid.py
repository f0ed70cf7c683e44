"""Another user of the machine: cannot connect, read the directory, or hear a message.

Each attempt runs in a process of its own that has become that user; only root can make one.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client
from hintcell_manager.protocol import CONTROL_NAME, DOOR_NAME, EVENTS_NAME
from tests.client.searches import START_S, search, serving, short_directory

NOBODY = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# What each attempt of the other user does with the directory; it prints what it got, or the error that stopped it.
_ATTEMPTS = {
    "list": "print(os.listdir(directory))",
    "door": """
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(10)
connection.connect(f"{directory}/door")
try:
    connection.sendall(b'{"type":"attach"}\\n')
    print(connection.recv(4096))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
""",
    "control": 'socket.socket(socket.AF_UNIX).connect(f"{directory}/control"); print("connected")',
    "events": 'socket.socket(socket.AF_UNIX).connect(f"{directory}/events"); print("connected")',
    "remove": 'os.unlink(f"{directory}/door"); print("removed")',
}


def as_nobody(attempt: str, directory: Path) -> str:
    """What the other user gets."""
    # The interpreter is started as root, because the other user may not be able to read it.
    code = f"""
import os, socket
directory = {os.fspath(directory)!r}
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
try:
    {_ATTEMPTS[attempt].strip().replace(chr(10), chr(10) + "    ")}
except OSError as error:
    print(type(error).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=START_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with short_directory() as path, serving(path):
        yield path


@pytest.mark.parametrize("attempt", _ATTEMPTS)
def test_another_user_gets_nothing_out_of_the_directory(directory: Path, attempt: str) -> None:
    assert as_nobody(attempt, directory) == "PermissionError"


def test_the_sockets_are_there_for_their_owner(directory: Path) -> None:
    assert {DOOR_NAME, CONTROL_NAME, EVENTS_NAME} <= {path.name for path in directory.iterdir()}
    with Client(directory) as client, search(client, client.grant("alice")) as session:
        assert session.page().total == 50


def test_the_door_refuses_another_user_also_where_the_directory_was_opened_by_force() -> None:
    with short_directory() as directory, serving(directory), Client(directory) as client:
        directory.chmod(0o777)
        (directory / DOOR_NAME).chmod(0o777)
        assert DOOR_NAME in as_nobody("list", directory), "or else this test forces nothing"
        assert as_nobody("door", directory) == "b''"
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50
