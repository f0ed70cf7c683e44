"""Processes that stand still (SIGSTOP, a debugger, a stuck disk): what waits for them is bounded, kills included."""

import threading
from pathlib import Path

import pytest

from hintcell import Client, DeadlineExceeded, OpenRefused, SessionEnded
from hintcell import control as control_module
from hintcell import sidecar as sidecar_module
from tests.client.searches import SOON_S, next_cursor, search
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


def test_a_second_change_does_not_report_what_the_first_has_ended(client: Client) -> None:
    with search(client, client.grant("alice")), Family(client) as family:
        family.template.stop()
        assert len(client.permission_changed(principal="alice").ended) == 1
        assert client.permission_changed(principal="alice").ended == ()


def test_a_change_while_a_stopped_template_owes_a_worker_replaces_the_template(patches: Patches, runtime: Path) -> None:
    patches.deadline("hintcell_manager.service", "DEATH_DEADLINE_S", 0.3)
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
    patches.deadline("hintcell_manager.service", "FORK_DEADLINE_S", 0.3)
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
