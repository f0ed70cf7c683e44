"""Texts to search, a search over them in one line, and a manager that several clients share."""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from hintcell import Client, Document, Grant, Hints, Limits, Page, Session
from hintcell_manager.protocol import DOOR_NAME

QUERY = "read config"
# Most match in a way of their own, every fifth not at all, and some only when identifiers are split.
_PIECES = ("read the config", "readConfig", "config", "write the file", "read read read")

# Starting Python takes a fifth of a second; a machine under load gets many times that.
START_S = 30.0
# For what takes milliseconds, on a machine under load.
SOON_S = 10.0


def catalog(count: int = 50, *, text_bytes: int = 0) -> list[Document]:
    """Documents to search for QUERY, each text filled up to `text_bytes` if that is more."""
    texts = (f"{_PIECES[number % 5]} {'other ' * (number % 7)}" for number in range(count))
    return [Document(f"file.py:{number}", text.ljust(text_bytes, "x")) for number, text in enumerate(texts)]


def search(
    client: Client,
    grant: Grant,
    *,
    snapshot_id: str = "snapshot",
    query: str = QUERY,
    documents: Sequence[Document] | None = None,
    limit: int = 20,
    identifier_hints: bool = False,
    hints: Hints | None = None,
    limits: Limits | None = None,
) -> Session:
    """`Client.open` with a value for everything that the test does not care about."""
    return client.open(
        grant,
        snapshot_id=snapshot_id,
        query=query,
        documents=catalog() if documents is None else documents,
        limit=limit,
        identifier_hints=identifier_hints,
        hints=hints,
        limits=limits,
    )


def next_cursor(page: Page) -> str:
    """The cursor of a page that is known not to be the last."""
    assert page.next_cursor is not None
    return page.next_cursor


def still_there(*pids: int) -> list[psutil.Process]:
    """Those of the processes that are not gone yet."""
    processes: list[psutil.Process] = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    return processes


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """A new directory with a path short enough for sockets, which pytest's `tmp_path` is not."""
    with tempfile.TemporaryDirectory(prefix="hc-", dir="/tmp") as name:
        yield Path(name)


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A shared manager that serves the directory, told to stop at the end."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "hintcell_manager", "serve", "--directory", str(directory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as manager:
        try:
            _wait_for_door(directory, manager)
            yield manager
        finally:
            manager.terminate()
            try:
                manager.wait(START_S)
            finally:
                manager.kill()


def _wait_for_door(directory: Path, manager: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert manager.poll() is None, "the manager ended at its start"
        with socket.socket(socket.AF_UNIX) as visitor, contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            visitor.connect(str(directory / DOOR_NAME))
            return
        time.sleep(0.01)
    raise AssertionError(f"no manager serves {directory} after {START_S:g} s")
