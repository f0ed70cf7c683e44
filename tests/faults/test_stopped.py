"""Processes that stand still (SIGSTOP, a debugger, a stuck disk): what waits for them is bounded, kills included."""

import contextlib
import threading
from pathlib import Path

import psutil
import pytest

from hintcell import Client, DeadlineExceeded, HintcellError, ManagerOptions, OpenRefused, RequestRejected, SessionEnded
from hintcell import control as control_module
from hintcell import sidecar as sidecar_module
from tests.client.searches import SOON_S, catalog, next_cursor, search, serving
from tests.faults.patches import Patches
from tests.faults.processes import Family, Watched, assert_none_left, until


def test_a_stopped_worker_is_killed_by_a_change(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Watched(session.pid) as worker:
        worker.stop()
        report = client.permission_changed(principal="alice")
        assert worker.has_exited()
        assert report.took_s < 1
        assert_none_left([worker])
        with pytest.raises(SessionEnded, match="permission_changed"):
            session.page()


def test_a_stopped_worker_ends_with_its_client(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Watched(session.pid) as worker:
        worker.stop()
        client.close()
        assert_none_left([worker])


def test_a_stopped_worker_of_a_shared_manager_ends_with_its_client(directory: Path) -> None:
    with serving(directory), Client(directory) as stays, Client(directory) as leaves:
        other = search(stays, stays.grant("bob"))
        with search(leaves, leaves.grant("alice")) as session, Watched(session.pid) as worker:
            worker.stop()
            leaves.close()
            assert_none_left([worker])
            assert stays.end_of(session.id).reason == "completed"
        assert other.page().total == 50


@pytest.mark.parametrize("loading", [True, False], ids=["loading", "ready"])
def test_a_stopped_template_ends_with_a_killed_manager(adopted_orphans: None, runtime: Path, loading: bool) -> None:
    with Client() as client:
        if not loading:
            search(client, client.grant("warm")).close()
        with Family(client) as family:
            family.template.stop()
            family.manager.kill()
            assert_none_left(family.all())


def test_a_fresh_worker_that_is_stopped_at_its_first_breath_ends_with_a_killed_manager(
    patches: Patches, adopted_orphans: None, runtime: Path
) -> None:
    patches.fresh_worker("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    with (
        Client(options=ManagerOptions(launcher="exec")) as client,
        contextlib.suppress(HintcellError),
        search(client, client.grant("alice"), documents=catalog(1)) as session,
        Watched(session.pid) as worker,
        Watched(client.manager_pid) as manager,
    ):
        until(lambda: psutil.Process(session.pid).status() == psutil.STATUS_STOPPED)
        manager.kill()
        assert_none_left([worker])


def test_a_page_of_a_stopped_worker_is_not_waited_for_longer_than_was_said(runtime: Path) -> None:
    with Client(page_deadline_s=0.2) as client, search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())
        with Watched(session.pid) as worker:
            worker.stop()
            with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
                session.page(cursor)
            with pytest.raises(SessionEnded):
                session.page(cursor)


def test_a_worker_that_missed_its_deadline_is_gone_when_the_caller_knows(runtime: Path) -> None:
    with Client(page_deadline_s=0.2) as client, search(client, client.grant("alice")) as session:
        cursor = next_cursor(session.page())
        with Watched(session.pid) as worker:
            worker.stop()
            with pytest.raises(DeadlineExceeded):
                session.page(cursor)
            assert_none_left([worker])


def test_a_stopped_template_hides_no_death(client: Client) -> None:
    with search(client, client.grant("alice")) as session, Family(client, session) as family:
        (worker,) = family.workers
        session.page()
        family.template.stop()
        report = client.permission_changed(principal="alice")
        assert worker.has_exited()
        assert report.took_s < 1
        with pytest.raises(SessionEnded) as end:
            session.page()
        assert end.value.reason == "permission_changed"
        family.template.resume()
        assert_none_left([worker])


def test_a_stopped_template_hides_no_reason(client: Client) -> None:
    closed, refused, killed = (search(client, client.grant(name)) for name in ("a", "b", "c"))
    for session in (closed, refused, killed):
        session.page()
    with Family(client, killed) as family:
        family.template.stop()
        closed.close()
        with pytest.raises(RequestRejected, match="limit"):
            refused.page(next_cursor(refused.page()), 5_000)
        family.workers[0].kill()
        assert [client.end_of(session.id).reason for session in (closed, killed)] == ["completed", "crashed"]
        assert client.end_of(killed.id).exit_status == -9
        family.template.resume()


def test_a_second_change_does_not_report_what_the_first_has_ended(client: Client) -> None:
    with search(client, client.grant("alice")), Family(client) as family:
        family.template.stop()
        assert len(client.permission_changed(principal="alice").ended) == 1
        assert client.permission_changed(principal="alice").ended == ()


def test_a_change_while_a_stopped_template_owes_a_worker_replaces_the_template(patches: Patches, runtime: Path) -> None:
    patches.deadline("hintcell_manager.workers", "DEATH_DEADLINE_S", 0.3)
    with Client() as client:
        search(client, client.grant("warm")).close()
        grant = client.grant("alice")
        outcome: list[OpenRefused] = []

        def open_one() -> None:
            with pytest.raises(OpenRefused) as refusal:
                search(client, grant)
            outcome.append(refusal.value)

        thread = threading.Thread(target=open_one)
        with Family(client) as family:
            family.template.stop()
            thread.start()
            until(lambda: [session.state for session in client.status().sessions] == ["starting"])
            client.permission_changed(principal="alice")
            assert family.template.has_exited()
        thread.join(SOON_S)
        assert [refusal.reason for refusal in outcome] == ["permission_changed"]
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50


def test_a_template_that_does_not_answer_is_replaced(patches: Patches, runtime: Path) -> None:
    patches.deadline("hintcell_manager.workers", "FORK_DEADLINE_S", 0.3)
    with Client() as client, search(client, client.grant("warm")) as session, Family(client, session) as family:
        family.template.stop()
        with pytest.raises(OpenRefused) as refusal:
            search(client, client.grant("alice"))
        assert refusal.value.reason == "cannot_start"
        assert_none_left([family.template, *family.workers])
        with search(client, client.grant("alice")) as session:
            assert session.page().total == 50


def test_a_client_closes_although_its_template_is_stopped(client: Client) -> None:
    with Family(client) as family:
        family.template.stop()
        client.close()
        assert_none_left(family.all())


@pytest.mark.usefixtures("adopted_orphans")
def test_a_stopped_manager_is_not_waited_for_longer_than_was_said_and_is_killed_at_the_close(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_module, "CONTROL_DEADLINE_S", 0.2)
    monkeypatch.setattr(sidecar_module, "STOP_DEADLINE_S", 0.2)
    with search(client, client.grant("alice")) as session, Family(client, session) as family:
        cursor = next_cursor(session.page())
        family.manager.stop()
        for call in (lambda: client.grant("alice"), client.status, lambda: client.permission_changed(everyone=True)):
            with pytest.raises(DeadlineExceeded, match=r"within 0\.2 s"):
                call()
        assert session.page(cursor).offset == 20, "its worker needs no manager to turn a page"
        client.close()
        assert not family.manager.is_left()
        assert_none_left([family.template, *family.workers])
