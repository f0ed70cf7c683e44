"""The directory with the sockets: nobody else's, one manager's at a time, and clean afterwards."""

import os
import socket
import stat
import time
from pathlib import Path

import pytest

from hintcell_manager import runtime
from hintcell_manager.protocol import MAX_SOCKET_PATH_BYTES, default_directory
from hintcell_manager.runtime import RuntimeDirectory, RuntimeDirectoryError, private_directory
from tests.manager.places import own_descriptors


@pytest.fixture
def base(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private directories are made."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    assert default_directory().parent == place
    return place


def _leave_a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(os.fspath(path))


def _refused(path: Path) -> str:
    """Why the directory cannot be used."""
    with pytest.raises(RuntimeDirectoryError) as refused:
        RuntimeDirectory(path, remove_at_close=False)
    return str(refused.value)


def _age(path: Path, by_s: float = 3600.0) -> None:
    old = time.time() - by_s
    os.utime(path, (old, old))


# --- who may see it ---


def test_a_directory_that_does_not_exist_is_made_for_the_user_alone(place: Path) -> None:
    path = place / "run" / "hintcell"
    RuntimeDirectory(path, remove_at_close=False).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE((path / "lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707, 0o701, 0o710])
def test_a_directory_open_to_others_is_refused_and_left_alone(place: Path, mode: int) -> None:
    path = place / "open"
    path.mkdir()
    path.chmod(mode)
    assert "is open to other users: run chmod 700 on it" in _refused(path)
    assert list(path.iterdir()) == []
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_another_users_directory_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own_uid + 1)
    assert "belongs to another user" in _refused(place)
    assert list(place.iterdir()) == []


def test_a_link_to_a_directory_is_refused(place: Path) -> None:
    (place / "real").mkdir(mode=0o700)
    (place / "link").symlink_to("real")
    assert "not a directory" in _refused(place / "link")
    assert list((place / "real").iterdir()) == []


def test_a_link_to_nowhere_and_a_file_are_refused(place: Path) -> None:
    (place / "link").symlink_to("nowhere")
    (place / "file").write_text("mine")
    for name in ("link", "file"):
        assert f"cannot use {place / name}: File exists" in _refused(place / name)
    assert (place / "file").read_text() == "mine"


def test_a_lock_that_is_a_link_is_refused_and_its_target_is_not_made(place: Path) -> None:
    (place / "lock").symlink_to(place / "target")
    assert "cannot use" in _refused(place)
    assert not (place / "target").exists()


# --- how long its name may be ---


def _directory_whose_control_socket_has(place: Path, size: int, letter: str = "d") -> Path:
    rest = size - len(os.fsencode(place / "x" / "control")) + 1
    name = letter * (rest // len(letter.encode()))
    return place / (name + "d" * (rest - len(name.encode())))


@pytest.mark.parametrize("letter", ["d", "é"])
def test_a_socket_path_of_107_bytes_works_and_one_of_108_is_refused_with_both_numbers(place: Path, letter: str) -> None:
    longest = _directory_whose_control_socket_has(place, MAX_SOCKET_PATH_BYTES, letter)
    directory = RuntimeDirectory(longest, remove_at_close=True)
    _leave_a_socket(directory.control)
    directory.close()
    too_long = _directory_whose_control_socket_has(place, MAX_SOCKET_PATH_BYTES + 1, letter)
    message = _refused(too_long)
    assert "a path of 108 bytes" in message
    assert "allows 107" in message
    assert "choose a shorter directory" in message
    assert list(place.iterdir()) == []


# --- one manager at a time ---


def test_a_second_manager_is_refused_while_the_first_serves_and_the_firsts_sockets_stay(place: Path) -> None:
    first = RuntimeDirectory(place, remove_at_close=False)
    _leave_a_socket(first.door)
    _leave_a_socket(first.control)
    assert f"another manager serves {place}: stop it or choose another directory" in _refused(place)
    assert first.door.is_socket()
    assert first.control.is_socket()
    first.close()
    RuntimeDirectory(place, remove_at_close=False).close()


def test_a_refused_manager_keeps_no_descriptor(place: Path) -> None:
    first = RuntimeDirectory(place, remove_at_close=False)
    before = own_descriptors()
    _refused(place)
    assert own_descriptors() == before
    first.close()


def test_sockets_of_a_killed_manager_are_taken_over(place: Path) -> None:
    for name in ("door", "control"):
        _leave_a_socket(place / name)
    directory = RuntimeDirectory(place, remove_at_close=False)
    assert not directory.door.exists()
    assert not directory.control.exists()
    _leave_a_socket(directory.door)
    directory.close()


def test_close_removes_the_sockets_and_keeps_a_shared_directory(place: Path) -> None:
    directory = RuntimeDirectory(place, remove_at_close=False)
    _leave_a_socket(directory.door)
    _leave_a_socket(directory.control)
    directory.close()
    assert [path.name for path in place.iterdir()] == ["lock"]


# --- private directories ---


def test_a_private_directory_is_new_and_the_users_alone_and_goes_at_close(base: Path) -> None:
    first, second = private_directory(), private_directory()
    assert first.path != second.path
    for directory in (first, second):
        assert directory.path.parent == base
        assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
        _leave_a_socket(directory.door)
        directory.close()
    assert list(base.iterdir()) == []


def test_a_private_directory_with_something_else_in_it_stays_without_an_error(base: Path) -> None:
    directory = private_directory()
    (directory.path / "notes").write_text("mine")
    directory.close()
    assert (directory.path / "notes").read_text() == "mine"


def test_a_private_directory_that_cannot_be_made_is_an_error_that_says_what_to_set(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base / "nowhere"))
    with pytest.raises(RuntimeDirectoryError, match="No such file or directory; set XDG_RUNTIME_DIR"):
        private_directory()


def _abandoned(base: Path, name: str) -> Path:
    """What a private manager leaves that was killed together with its client."""
    path = base / f"hintcell-private-{name}"
    path.mkdir(mode=0o700)
    (path / "lock").touch(mode=0o600)
    _leave_a_socket(path / "door")
    _leave_a_socket(path / "control")
    return path


def test_directories_of_killed_managers_are_swept_away(base: Path) -> None:
    abandoned = [_abandoned(base, name) for name in ("one", "two")]
    for path in abandoned:
        _age(path)
    private_directory().close()
    assert list(base.iterdir()) == []


def test_a_directory_that_is_served_is_not_swept_away_however_old(base: Path) -> None:
    served = private_directory()
    _leave_a_socket(served.door)
    _age(served.path)
    private_directory().close()
    assert served.door.is_socket()
    served.close()
    assert list(base.iterdir()) == []


def test_a_directory_that_is_new_or_open_to_others_or_has_no_lock_is_not_swept_away(base: Path) -> None:
    new = _abandoned(base, "new")
    open_to_others = _abandoned(base, "open")
    open_to_others.chmod(0o755)
    _age(open_to_others)
    without_lock = base / "hintcell-private-without-lock"
    without_lock.mkdir(mode=0o700)
    _age(without_lock)
    private_directory().close()
    assert (new / "door").is_socket()
    assert (open_to_others / "door").is_socket()
    assert without_lock.is_dir()


def test_a_link_where_a_private_directory_could_be_is_not_followed(base: Path) -> None:
    target = _abandoned(base, "target").rename(base / "elsewhere")
    link = base / "hintcell-private-link"
    link.symlink_to(target)
    old = time.time() - 2 * runtime._LOCKED_WITHIN_S
    os.utime(link, (old, old), follow_symlinks=False)
    private_directory().close()
    assert (target / "door").is_socket()
