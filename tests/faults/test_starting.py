"""What a start finds in its way: directories, sockets left behind, other managers, broken installations."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client, ManagerUnavailable, OpenRefused
from hintcell_manager.protocol import CONTROL_NAME, DOOR_NAME, LOCK_NAME
from tests.client.searches import START_S, search, serving, short_directory
from tests.faults.patches import Patches
from tests.faults.processes import SOON_S, Family, Watched, assert_none_left


def refused_start(directory: Path) -> str:
    """The message of a manager that must not start."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "hintcell_manager", "serve", "--directory", str(directory)],
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, "one line"
    return done.stderr


def test_a_path_too_long_for_a_socket_is_refused_with_its_length(directory: Path) -> None:
    longest = directory / ("x" * (107 - len(f"{directory}//{CONTROL_NAME}")))
    with serving(longest), Client(longest) as client:
        assert client.status().pid == client.manager_pid
    longer = longest.with_name(f"{longest.name}x")
    assert "108 bytes: Linux allows 107, choose a shorter directory" in refused_start(longer)
    assert not longer.exists()


def test_a_client_of_a_path_too_long_says_so(directory: Path) -> None:
    with pytest.raises(ManagerUnavailable, match="too long"):
        Client(directory / ("x" * 100))


@pytest.fixture
def deep_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with short_directory() as path:
        deep = path / ("x" * 80)
        deep.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
        yield deep


def test_a_private_manager_in_a_path_too_long_tells_the_client(deep_runtime: Path) -> None:
    with pytest.raises(ManagerUnavailable, match="Linux allows 107"):
        Client()


def test_a_private_manager_that_does_not_start_leaves_no_directory(deep_runtime: Path) -> None:
    with pytest.raises(ManagerUnavailable):
        Client()
    assert list(deep_runtime.iterdir()) == []


def test_a_runtime_directory_that_cannot_be_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    with pytest.raises(ManagerUnavailable, match="XDG_RUNTIME_DIR"):
        Client()


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o710, 0o701])
def test_a_directory_open_to_others_is_refused(directory: Path, mode: int) -> None:
    directory.chmod(mode)
    assert "chmod 700" in refused_start(directory)
    assert list(directory.iterdir()) == []


def test_a_directory_that_is_none_is_refused(directory: Path) -> None:
    (directory / "file").touch()
    assert "cannot use" in refused_start(directory / "file")
    (directory / "real").mkdir(mode=0o700)
    (directory / "link").symlink_to("real")
    assert "not a directory" in refused_start(directory / "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(directory: Path) -> None:
    (directory / "theirs").mkdir(mode=0o700)
    os.chown(directory / "theirs", 65_534, 65_534)
    assert "belongs to another user" in refused_start(directory / "theirs")


def test_a_client_does_not_give_documents_to_a_directory_that_others_can_write(directory: Path) -> None:
    with serving(directory):
        directory.chmod(0o777)
        with pytest.raises(ManagerUnavailable):
            Client(directory).close()


def test_a_second_manager_is_refused_and_the_first_serves_on(directory: Path) -> None:
    with serving(directory), Client(directory) as client, search(client, client.grant("alice")) as session:
        session.page()
        assert "another manager serves" in refused_start(directory)
        assert session.page().total == 50
        with Client(directory) as other:
            assert other.manager_pid == client.manager_pid


@pytest.mark.usefixtures("adopted_orphans")
def test_the_sockets_of_a_killed_manager_are_taken_over(directory: Path) -> None:
    with serving(directory) as manager, Client(directory) as client:
        search(client, client.grant("alice")).close()
        with Family(client) as family:
            manager.kill()
            manager.wait()
            assert_none_left([family.template])
    assert {DOOR_NAME, CONTROL_NAME} <= {entry.name for entry in directory.iterdir()}
    with pytest.raises(ManagerUnavailable, match="no manager serves"):
        Client(directory)
    with (
        serving(directory),
        Client(directory) as client,
        search(client, client.grant("alice")) as session,
    ):
        assert session.page().total == 50


def test_a_manager_that_was_told_to_stop_leaves_only_its_lock(directory: Path) -> None:
    with serving(directory) as manager:
        manager.send_signal(signal.SIGTERM)
        assert manager.wait(SOON_S) == 0
    assert {entry.name for entry in directory.iterdir()} <= {LOCK_NAME}


def test_what_a_manager_and_its_client_left_when_both_were_killed_is_swept_later(runtime: Path) -> None:
    left = runtime / "hintcell-private-left"
    left.mkdir(mode=0o700)
    for name in (DOOR_NAME, CONTROL_NAME, LOCK_NAME):
        (left / name).touch()
    an_hour_ago = time.time() - 3_600
    os.utime(left, (an_hour_ago, an_hour_ago))
    with Client() as client:
        assert not left.exists()
        os.utime(client.directory, (an_hour_ago, an_hour_ago))
        with Client():
            assert client.status().pid == client.manager_pid, "a directory that is served is no leftover"


def test_a_folder_of_the_same_name_is_not_run(runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hintcell_manager", "hintcell_worker", "msgspec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('this is not the program')")
    monkeypatch.chdir(tmp_path)
    with Client() as client, search(client, client.grant("alice")) as session:
        assert session.page().total == 50


def test_a_manager_that_cannot_load_is_told_and_not_waited_for(
    patches: Patches, runtime: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    patches.package("zmq", "raise ImportError('broken for this test')")
    with pytest.raises(ManagerUnavailable, match="standard error says why"):
        Client()
    assert "broken for this test" in capfd.readouterr().err


BROKEN_TEMPLATES = {
    "an import that fails": "raise ImportError('broken for this test')",
    "an import that raises": "raise RuntimeError('broken for this test')",
    "an exit": "import sys; print('broken for this test', file=sys.stderr); sys.exit(3)",
    "a crash": "import os; os.write(2, b'broken for this test'); os.abort()",
}


@pytest.mark.parametrize("code", BROKEN_TEMPLATES.values(), ids=BROKEN_TEMPLATES)
def test_a_template_that_cannot_start_is_told_in_its_own_words(
    patches: Patches, runtime: Path, tmp_path: Path, code: str
) -> None:
    patches.package("sklearn", code)
    with Client() as client:
        for _ in range(2):
            with pytest.raises(OpenRefused, match="broken for this test") as refusal:
                search(client, client.grant("alice"))
            assert refusal.value.reason == "cannot_start"
        shutil.rmtree(tmp_path / "sklearn")
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50


def test_a_template_that_never_gets_ready_is_not_waited_for_longer_than_was_said(
    patches: Patches, runtime: Path
) -> None:
    patches.package("sklearn", "import signal; signal.pause()")
    patches.deadline("hintcell_manager.fleet", "LOADING_DEADLINE_S", 0.5)
    with Client() as client, Family(client) as family:
        with pytest.raises(OpenRefused, match="did not start") as refusal:
            search(client, client.grant("alice"))
        assert refusal.value.reason == "cannot_start"
        assert_none_left([family.template])


def test_a_template_with_threads_is_refused_because_it_would_not_fork_safely(patches: Patches, runtime: Path) -> None:
    patches.template("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
    with Client() as client, pytest.raises(OpenRefused, match="2 threads"):
        search(client, client.grant("alice"))


def test_a_client_that_is_done_before_its_template_is_ready_leaves_nothing(runtime: Path) -> None:
    with Client() as client, Watched(client.manager_pid) as manager:
        client.close()
        assert not manager.is_left()
