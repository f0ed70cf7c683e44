"""A manager, `hintcell watch` and the sessions of two principals, all as real processes, while a policy is edited."""

import json
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import pytest

from hintcell import Client, Grant, OpenRefused, Session, SessionEnded
from hintcell.catalog import build_from_directory
from hintcell.policy import LABEL, load_policy
from tests.client.policy import edits
from tests.client.searches import SOON_S, START_S, next_cursor, serving, short_directory, still_there

_SOURCE = {
    "app.py": "def read_config(): return 'read the config'\n\ndef write_config(): return 'config'\n",
    "secrets/keys.py": "def read_keys(): return 'read read config config'\n\ndef rotate(): return 'keys'\n",
    "lib/deep.py": "def read(): return 'config of lib'\n",
    "data.json": "read config",
}


class Shared(NamedTuple):
    directory: Path
    client: Client


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    with short_directory() as directory, serving(directory), Client(directory) as client:
        yield Shared(directory, client)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for name, text in _SOURCE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def rules(*, alice_deny: str = "", bob_deny: str = "") -> str:
    return f"""
        [groups.team]
        members = ["alice", "bob"]
        allow = ["**"]
        [principals.alice]
        deny = [{alice_deny}]
        [principals.bob]
        deny = [{bob_deny}]
    """


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folder = tmp_path / "etc"
    folder.mkdir()
    path = folder / "policy.toml"
    path.write_text(rules())
    return path


class Watch:
    """`hintcell watch`, whose lines are waited for."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._out = cast(BinaryIO, process.stdout)
        self._rest = b""

    def line(self) -> dict[str, object]:
        until = time.monotonic() + START_S
        while b"\n" not in self._rest:
            assert select.select([self._out], [], [], max(0.0, until - time.monotonic()))[0], "no line came"
            piece = self._out.read1(65_536)
            assert piece, "the watching has ended"
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return cast(dict[str, object], json.loads(line))

    def until(self, **expected: object) -> dict[str, object]:
        """The first line with these values. An edit in several steps may have several lines."""
        while not expected.items() <= (line := self.line()).items():
            pass
        return line


def watching(shared: Shared, policy: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "hintcell.cli", "watch"]
        + ["--policy", str(policy), "--directory", str(shared.directory), "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def watch(shared: Shared, policy: Path) -> Iterator[Watch]:
    with watching(shared, policy) as process:
        try:
            watch = Watch(process)
            watch.until(kind="started")
            yield watch
        finally:
            process.kill()


def opened(shared: Shared, grant: Grant, policy: Path, root: Path) -> Session:
    """What a search does after it has taken its grant."""
    catalog = build_from_directory(root, may_read=load_policy(policy).may_read(grant.principal))
    return shared.client.open(
        grant, snapshot_id=catalog.snapshot_id, query="read config", documents=catalog.documents, limit=1
    )


def search(shared: Shared, principal: str, policy: Path, root: Path) -> Session:
    return opened(shared, shared.client.grant(principal, ["folder:x", LABEL]), policy, root)


def ranking(session: Session) -> list[tuple[str, float]]:
    return [(one.candidate_id, one.bm25_score) for page in session for one in page.candidates]


def is_dead(session: Session, cursor: str) -> None:
    with pytest.raises(SessionEnded) as raised:
        session.page(cursor)
    assert raised.value.reason == "permission_changed"
    assert still_there(session.pid) == []


@pytest.mark.parametrize("edit", [edits.in_place, edits.by_renaming, edits.by_link_swap])
def test_a_file_cut_out_of_one_s_policy_ends_that_one_s_sessions_and_leaves_no_trace_in_scores(
    shared: Shared, watch: Watch, policy: Path, root: Path, edit: edits.Edit, tmp_path: Path
) -> None:
    edit(policy, rules())  # Now it is what the edit makes of it, with the same rules: no change.
    with search(shared, "alice", policy, root) as of_alice, search(shared, "bob", policy, root) as of_bob:
        first, first_of_bob = of_alice.page(), of_bob.page()
        assert first.candidates[0].candidate_id == "secrets/keys.py:1:read_keys"

        edit(policy, rules(alice_deny='"secrets/**"'))
        line = watch.until(kind="changed")
        assert (line["principals"], line["ended"]) == (["alice"], 1)
        is_dead(of_alice, next_cursor(first))
        assert still_there(of_bob.pid)
        assert of_bob.page(next_cursor(first_of_bob)).offset == 1

    with search(shared, "alice", policy, root) as new:
        scores = ranking(new)
    never_there = tmp_path / "never"
    shutil.copytree(root, never_there, ignore=shutil.ignore_patterns("secrets"))
    catalog = build_from_directory(never_there)
    grant = shared.client.grant("somebody else")
    with shared.client.open(
        grant, snapshot_id=catalog.snapshot_id, query="read config", documents=catalog.documents, limit=1
    ) as same:
        assert ranking(same) == scores
    assert len(scores) == 3


def test_an_open_that_decided_by_the_old_text_is_refused_and_a_later_one_reads_the_new(
    shared: Shared, watch: Watch, policy: Path, root: Path
) -> None:
    grants = {name: shared.client.grant(name, [LABEL]) for name in ("alice", "bob")}
    old = {name: load_policy(policy).may_read(name) for name in grants}
    edits.by_renaming(policy, rules(alice_deny='"secrets/**"'))
    watch.until(kind="changed", ended=0, principals=["alice"])
    catalogs = {name: build_from_directory(root, may_read=may_read) for name, may_read in old.items()}

    def open_as(name: str) -> Session:
        documents = catalogs[name].documents
        return shared.client.open(grants[name], snapshot_id="s", query="read", documents=documents, limit=1)

    with pytest.raises(OpenRefused) as raised:
        open_as("alice")
    assert raised.value.reason == "permission_changed"
    with open_as("bob") as of_bob, search(shared, "alice", policy, root) as new:
        assert of_bob.page().total == 5
        assert new.page().total == 3


def test_a_policy_that_is_broken_ends_everyone_under_it_and_nobody_else(
    shared: Shared, watch: Watch, policy: Path, root: Path
) -> None:
    def broken() -> None:
        edits.by_renaming(policy, "[principals.alice\n")

    for breaking in (broken, policy.unlink):
        without = shared.client.grant("alice", ["folder:x"])
        with (
            search(shared, "alice", policy, root) as of_alice,
            search(shared, "bob", policy, root) as of_bob,
            opened(shared, without, policy, root) as not_under_it,
        ):
            cursors = [next_cursor(session.page()) for session in (of_alice, of_bob)]
            before = shared.client.grant("alice", [LABEL])
            breaking()
            line = watch.until(kind="unreadable")
            assert line["ended"] == 2
            assert str(policy) in str(line["message"])
            for session, cursor in zip((of_alice, of_bob), cursors, strict=True):
                is_dead(session, cursor)
            assert not_under_it.page().total == 5
        edits.by_renaming(policy, rules())
        watch.until(kind="readable")
        with pytest.raises(OpenRefused):
            opened(shared, before, policy, root)
        with search(shared, "alice", policy, root) as again:
            assert again.page().total == 5


def test_what_was_opened_while_nobody_watched_is_ended_at_the_start(shared: Shared, policy: Path, root: Path) -> None:
    with search(shared, "alice", policy, root) as before:
        cursor = next_cursor(before.page())
        with watching(shared, policy) as process:
            try:
                assert Watch(process).line()["ended"] == 1
                is_dead(before, cursor)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=START_S)
                assert (process.returncode, err) == (130, b"")
            finally:
                process.kill()


def test_a_manager_that_ends_ends_the_watching_with_a_line(policy: Path) -> None:
    with short_directory() as directory, serving(directory) as manager:
        shared = Shared(directory, cast(Client, None))
        with watching(shared, policy) as process:
            try:
                Watch(process).until(kind="started")
                manager.kill()
                _, err = process.communicate(timeout=START_S)
            finally:
                process.kill()
        assert process.returncode == 1
        assert err == b"hintcell: the manager has ended, and its sessions with it: watch the next one\n"


def test_watching_ends_when_nobody_reads_its_lines_and_says_so(shared: Shared, policy: Path, root: Path) -> None:
    with watching(shared, policy) as process:
        try:
            Watch(process).until(kind="started")
            with search(shared, "alice", policy, root) as session:
                cursor = next_cursor(session.page())
                cast(BinaryIO, process.stdout).close()
                edits.by_renaming(policy, rules(alice_deny='"lib"'))
                assert process.wait(START_S) == 1
                is_dead(session, cursor)
            assert b"the policy is not watched" in cast(BinaryIO, process.stderr).read()
        finally:
            process.kill()


def test_a_search_shows_what_the_principal_may_read(shared: Shared, policy: Path, root: Path) -> None:
    policy.write_text(rules(alice_deny='"secrets/**"'))

    def run(principal: str) -> "subprocess.CompletedProcess[bytes]":
        where = ["--root", str(root), "--directory", str(shared.directory), "--policy", str(policy)]
        return subprocess.run(
            [sys.executable, "-P", "-m", "hintcell.cli", "search", "read config", "--json", *where]
            + ["--principal", principal],
            capture_output=True,
            timeout=START_S + SOON_S,
            check=False,
        )

    found = {name: {json.loads(line)["path"] for line in run(name).stdout.splitlines()} for name in ("alice", "bob")}
    assert found == {"alice": {"app.py", "lib/deep.py"}, "bob": {"app.py", "lib/deep.py", "secrets/keys.py"}}
    unnamed = run("mallory")
    assert (unnamed.returncode, unnamed.stdout) == (1, b"")
    assert unnamed.stderr.startswith(b"hintcell: the policy lets mallory read nothing: ")
