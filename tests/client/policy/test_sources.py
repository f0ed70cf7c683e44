"""A policy in a file: reading it whole, and hearing of every way in which it changes."""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hintcell.policy import FilePolicySource, Policy, PolicyError, load_policy, sources
from tests.client.policy import edits

# A change is heard of within half a second; a machine under load is given its time.
_HEARD_S = 30.0


def text(pattern: str) -> str:
    return f"[principals.alice]\nallow = ['{pattern}']\n"


def allowed(policy: Policy) -> set[str]:
    return set(policy.rules_of("alice").allow)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file alone in a folder that is a link to another, as a release is."""
    (tmp_path / "first").mkdir()
    (tmp_path / "current").symlink_to("first")
    path = tmp_path / "current" / "policy.toml"
    path.write_text(text("a"))
    return path


class _Hearing:
    """Reads a source each time it tells of a change, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._source = FilePolicySource(path)
        self._heard: queue.SimpleQueue[Policy | PolicyError] = queue.SimpleQueue()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def _listen(self) -> None:
        for _ in self._source.changes(self.stop):
            try:
                self._heard.put(self._source.read())
            except PolicyError as error:
                self._heard.put(error)

    def until(self, is_it: Callable[[Policy | PolicyError], bool]) -> None:
        """Wait for what was meant; what an edit looks like between its steps may be heard before."""
        until = time.monotonic() + _HEARD_S
        while not is_it(self._heard.get(timeout=max(0.0, until - time.monotonic()))):
            pass

    def until_allowed(self, pattern: str) -> None:
        self.until(lambda heard: isinstance(heard, Policy) and allowed(heard) == {pattern})


@contextlib.contextmanager
def listening(path: Path) -> Iterator[_Hearing]:
    """Somebody who hears of changes, and stops when told to."""
    hearing = _Hearing(path)
    try:
        yield hearing
    finally:
        hearing.stop.set()
        hearing.thread.join(_HEARD_S)
    assert not hearing.thread.is_alive()


@pytest.fixture
def hearing(path: Path) -> Iterator[_Hearing]:
    with listening(path) as hearing:
        yield hearing


def test_it_is_told_once_without_a_change_so_that_none_before_is_missed(hearing: _Hearing) -> None:
    hearing.until_allowed("a")


@pytest.mark.parametrize(
    "edit",
    [
        edits.in_place,
        edits.by_renaming,
        edits.by_link_swap,
        edits.by_folder_link_swap,
        edits.by_moving_folders,
    ],
)
def test_every_kind_of_edit_is_heard_of_again_and_again(hearing: _Hearing, path: Path, edit: edits.Edit) -> None:
    hearing.until_allowed("a")
    for pattern in ("b", "c", "d"):
        edit(path, text(pattern))
        hearing.until_allowed(pattern)


def test_a_file_that_a_link_leads_to_is_watched_wherever_it_is(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(text("a"))
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "policy.toml"
    path.symlink_to(elsewhere)
    with listening(path) as hearing:
        hearing.until_allowed("a")
        elsewhere.write_text(text("b"))
        hearing.until_allowed("b")


@pytest.mark.parametrize("whole_folder", [False, True])
def test_a_file_that_goes_and_comes_back_is_heard_of(hearing: _Hearing, path: Path, whole_folder: bool) -> None:
    hearing.until_allowed("a")
    if whole_folder:
        path.parent.rename(path.parent.parent / "away")
    else:
        path.unlink()
    hearing.until(lambda heard: "No such file" in str(heard))
    if whole_folder:
        (path.parent.parent / "away").rename(path.parent)
    path.write_text(text("b"))
    hearing.until_allowed("b")


def test_a_text_that_is_no_policy_is_heard_of(hearing: _Hearing, path: Path) -> None:
    path.write_text("[principals")
    hearing.until(lambda heard: "not valid TOML" in str(heard))


def test_other_files_of_the_folder_do_not_matter(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(*_: object) -> Iterator[None]:
        yield
        (path.parent / "other").write_text("x")
        (path.parent / f"{path.name}~").write_text("x")
        yield
        edits.by_renaming(path, text("b"))
        yield
        yield

    monkeypatch.setattr(FilePolicySource, "_looks", looks)
    assert len(list(FilePolicySource(path).changes(threading.Event()))) == 2


def test_without_the_kernel_s_help_looking_has_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_watch(*_: object, **__: object) -> Iterator[None]:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr("watchfiles.watch", no_watch)
    with listening(path) as hearing:
        hearing.until_allowed("a")
        edits.by_renaming(path, text("b"))
        hearing.until_allowed("b")


def test_watchfiles_can_be_told_to_poll(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", "true")
    with listening(path) as hearing:
        hearing.until_allowed("a")
        edits.by_renaming(path, text("b"))
        hearing.until_allowed("b")


def test_what_the_machine_refused_is_read_again_without_a_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = sources._read
    refused: list[str] = []

    def refusing(name: str) -> tuple[bytes, os.stat_result]:
        if not refused:
            refused.append(name)
            raise OSError(24, "Too many open files")
        return read(name)

    monkeypatch.setattr(sources, "_read", refusing)
    with listening(path) as hearing:
        hearing.until(lambda heard: "Too many open files" in str(heard))
        hearing.until_allowed("a")


class _Time:
    """A clock that moves only when somebody sleeps, far behind the file's own; it calls what happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], object], *, now: float = 0.0) -> None:
        self._meanwhile = meanwhile
        self._now = now
        self.slept_s = 0.0

    def monotonic(self) -> float:
        return self.slept_s

    def time(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self._meanwhile()


def test_half_a_file_is_never_a_policy_though_it_is_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = text("**")
    path.write_text(half)
    steps = iter([half + "deny = ['secrets/**']\n"])
    monkeypatch.setattr(sources, "time", _Time(lambda: [path.write_text(step) for step in steps]))
    assert load_policy(path).rules_of("alice").deny == {"secrets/**"}


def test_a_file_that_is_written_all_the_time_is_no_policy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "time", _Time(lambda: path.write_text(path.read_text() + "#")))
    with pytest.raises(PolicyError, match="written all the time: leave it as it is"):
        load_policy(path)


def test_a_file_that_has_rested_is_read_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = _Time(lambda: None, now=time.time() + 3600)
    monkeypatch.setattr(sources, "time", clock)
    assert allowed(load_policy(path)) == {"a"}
    assert clock.slept_s == 0


def test_a_search_waits_longer_than_the_watching(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    between = (sources.REST_S + sources.WATCHING_REST_S) / 2
    clock = _Time(lambda: None, now=path.stat().st_ctime + between)
    monkeypatch.setattr(sources, "time", clock)
    assert allowed(load_policy(path, rest_s=sources.WATCHING_REST_S)) == {"a"}
    assert clock.slept_s == 0
    assert allowed(FilePolicySource(path).read()) == {"a"}
    assert clock.slept_s == sources.REST_S


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.mkdir(), "not a file|Is a directory"),
        (os.mkfifo, "it is not a file"),
        (lambda path: path.symlink_to(path.name), "symbolic links"),
        (lambda path: None, "No such file"),
        (lambda path: path.write_text("#" * (sources.MAX_FILE_BYTES + 1)), "over 1,048,576 bytes"),
        (lambda path: path.write_text("[x]"), "key 1 is not known"),
    ],
)
def test_what_is_no_policy_is_told_with_its_name(path: Path, make: Callable[[Path], object], said: str) -> None:
    path.unlink()
    make(path)
    with pytest.raises(PolicyError, match=said) as raised:
        load_policy(path)
    assert repr(str(path)) in str(raised.value)


def test_a_path_with_a_null_byte_is_told() -> None:
    with pytest.raises(PolicyError, match="null byte"):
        load_policy("a\0b")


def test_stop_that_was_set_before_ends_at_once(path: Path) -> None:
    stop = threading.Event()
    stop.set()
    assert list(FilePolicySource(path).changes(stop)) == []


def test_importing_policies_does_not_load_what_watches() -> None:
    code = "import sys, hintcell.policy; print({'watchfiles', 'anyio', 'asyncio'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "set()\n"
