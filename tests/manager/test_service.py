"""A manager process from outside: grants, sessions, permission changes, and every way in which it says no."""

import signal
import socket
from collections.abc import Iterator

import pytest

from hintcell_manager.protocol import (
    Admitted,
    Attach,
    Attached,
    ChangeReport,
    End,
    EndRequest,
    Failure,
    Grant,
    GrantRequest,
    OpenRequest,
    PermissionChange,
    StatusRequest,
    control_replies,
    encode,
)
from tests.manager.manager_process import ManagerProcess, a_manager, answer_at
from tests.manager.places import has_exited, short_directory
from tests.manager.template_process import ANSWER, REQUEST


@pytest.fixture(scope="module")
def manager() -> Iterator[ManagerProcess]:
    with short_directory() as directory, a_manager(directory) as manager:
        yield manager


# --- what is granted and told ---


def test_a_grant_names_the_manager_and_its_epoch_and_what_was_asked_for(manager: ManagerProcess) -> None:
    status = manager.status()
    assert manager.grant("alice", ("b", "a")) == Grant("alice", ("b", "a"), status.instance, status.epoch)


def test_who_attaches_learns_who_serves(manager: ManagerProcess) -> None:
    with manager.knock(Attach()) as connection:
        attached = answer_at(connection)
        assert isinstance(attached, Attached)
        status = manager.status()
        assert (attached.instance, attached.pid, attached.directory) == (
            status.instance,
            manager.pid,
            str(manager.directory),
        )


def test_a_session_ends_when_the_client_that_it_names_hangs_up_and_no_other_does(manager: ManagerProcess) -> None:
    grant = manager.grant()
    with manager.knock(Attach()) as stays, manager.knock(Attach()) as leaves:
        clients = [attached.client for attached in map(answer_at, (stays, leaves)) if isinstance(attached, Attached)]
        opens = [OpenRequest(grant, "s1", limit=1, client=client) for client in (*clients, None)]
        connections = [manager.knock(open_) for open_ in opens]
        admitted = [answer_at(connection) for connection in connections]
        sessions = [reply.session_id for reply in admitted if isinstance(reply, Admitted)]
        leaves.close()
        assert connections[1].recv(1) == b""
        end = manager.ask(EndRequest(sessions[1]), End)
        assert isinstance(end, End)
        assert (end.reason, end.message) == ("completed", "its client is gone")
        assert {told.session_id for told in manager.status().sessions} >= {sessions[0], sessions[2]}
        refused = manager.refusal(opens[1])
        assert (refused.reason, refused.message) == ("bad_request", "its client is gone")
        for connection in connections:
            connection.close()


def test_the_status_tells_processes_sessions_and_memory(manager: ManagerProcess) -> None:
    with manager.session(manager.grant("alice", ("a",)), snapshot_id="s7") as session:
        session.ask_one_page()
        status = manager.status(full_memory=True)
        (told,) = [told for told in status.sessions if told.session_id == session.id]
        assert (told.principal, told.labels, told.snapshot_id) == ("alice", ("a",), "s7")
        assert (told.state, told.pid, told.memory.state) == ("running", session.pid, "measured")
        assert 0 <= told.age_s <= status.uptime_s
        uss, pss, rss = told.memory.uss_bytes, told.memory.pss_bytes, told.memory.rss_bytes
        assert uss is not None and pss is not None and rss is not None  # noqa: PT018 - for the type checker
        assert 0 < uss < pss < rss
        assert uss < rss / 4, "most of a worker is shared with the template"
        assert status.pid == manager.pid
        assert status.memory.state == "measured"
        assert status.template_memory is not None
        assert status.template_memory.state == "measured"
        assert manager.status().sessions[-1].memory.uss_bytes is None, "not asked for"
    manager.end(session.id)
    assert session.id not in {told.session_id for told in manager.status().sessions}


# --- how sessions end ---


def test_a_session_that_its_client_closes_is_completed(manager: ManagerProcess) -> None:
    with manager.session() as session:
        session.ask_one_page()
    end = manager.end(session.id)
    assert (end.reason, end.message, end.exit_status, end.stderr_tail) == ("completed", "", 0, "")
    assert end.peak_rss_bytes is not None
    assert end.peak_rss_bytes > 16 * 1024 * 1024


def test_a_session_whose_input_is_refused_ends_with_the_workers_words(manager: ManagerProcess) -> None:
    with manager.session() as session:
        session.connection.sendall(b'{"snapshot_id":"s1"}\n')
        assert session.connection.recv(1) == b""
    end = manager.end(session.id)
    assert (end.reason, end.exit_status) == ("rejected", 2)
    assert end.message == "the request does not fit the protocol: Object missing required field `query`"


@pytest.mark.parametrize("limit", [0, -1, 4097, 2**70])
def test_a_session_with_a_limit_that_is_none_ends_as_rejected(manager: ManagerProcess, limit: int) -> None:
    with manager.session(limit=limit) as session:
        assert session.connection.recv(1) == b""
    end = manager.end(session.id)
    assert end.reason == "rejected"
    assert "--limit" in end.message
    assert "use 1 to 4096" in end.message


def test_a_worker_that_is_killed_by_somebody_else_has_crashed(manager: ManagerProcess) -> None:
    with manager.session() as session:
        session.ask_one_page()
        signal.pidfd_send_signal(session.pidfd, signal.SIGKILL)
        assert session.connection.recv(1) == b""
    end = manager.end(session.id)
    assert (end.reason, end.message, end.exit_status) == ("crashed", "the worker was ended by signal 9", -9)


def test_a_question_about_an_end_waits_for_it_and_holds_up_nobody(manager: ManagerProcess) -> None:
    with manager.control() as waiting:
        with manager.session() as session:
            waiting.send(encode(EndRequest(session.id)))
            waiting.send(encode(StatusRequest()))
            assert not isinstance(control_replies.decode(waiting.recv()), End), "the status comes first"
            session.ask_one_page()
        end = control_replies.decode(waiting.recv())
    assert isinstance(end, End)
    assert (end.session_id, end.reason) == (session.id, "completed")


def test_the_end_of_a_session_that_lives_or_is_not_known_is_no_end(manager: ManagerProcess) -> None:
    with manager.session() as session:
        assert manager.ask(EndRequest(session.id), Failure).message == "the session has not ended"
        session.ask_one_page()
    assert "no such session is remembered" in manager.ask(EndRequest("0123456789abcdef"), Failure).message


# --- when permissions change ---


def test_when_a_change_is_answered_the_processes_it_matches_are_dead_and_no_others(manager: ManagerProcess) -> None:
    alice_a, alice_b, bob_a = (
        manager.grant("alice", ("a", "x")),
        manager.grant("alice", ("b",)),
        manager.grant("bob", ("a",)),
    )
    with manager.session(alice_a) as hit, manager.session(alice_b) as missed, manager.session(bob_a) as other:
        hit.ask_one_page()
        report = manager.ask(PermissionChange("alice", labels=("a",)), ChangeReport)
        assert has_exited(hit.pidfd, within_s=0)
        assert hit.has_hung_up()
        assert [(ended.session_id, ended.pid) for ended in report.ended] == [(hit.id, hit.pid)]
        assert 0 < report.ended[0].died_after_s <= report.took_s
        assert report.epoch == manager.status().epoch
        for session in (missed, other):
            session.ask_one_page()
    end = manager.end(hit.id)
    assert (end.reason, end.message, end.exit_status) == ("permission_changed", "permissions changed", -9)


def test_a_change_kills_at_once_whatever_the_worker_is_doing(manager: ManagerProcess) -> None:
    with manager.session(snapshot_id="s9") as waiting, manager.session(snapshot_id="s9") as stopped:
        signal.pidfd_send_signal(stopped.pidfd, signal.SIGSTOP)
        report = manager.ask(PermissionChange(snapshot_id="s9"), ChangeReport)
        assert [ended.session_id for ended in report.ended] == [waiting.id, stopped.id]
        assert has_exited(waiting.pidfd, within_s=0)
        assert has_exited(stopped.pidfd, within_s=0)


def test_while_an_unread_answer_of_a_killed_worker_waits_it_already_shows_that_it_is_stale(
    manager: ManagerProcess,
) -> None:
    with manager.session() as session:
        session.connection.sendall(REQUEST)
        assert session.connection.recv(1, socket.MSG_PEEK) == ANSWER[:1]
        assert not session.has_hung_up()
        manager.ask(PermissionChange(session_id=session.id), ChangeReport)
        assert session.has_hung_up()
        assert session.connection.recv(1, socket.MSG_PEEK) == ANSWER[:1]


def test_a_grant_older_than_a_matching_change_opens_nothing_and_a_new_one_does(manager: ManagerProcess) -> None:
    old, of_another = manager.grant("carol"), manager.grant("dave")
    assert manager.ask(PermissionChange("carol"), ChangeReport).ended == ()
    refused = manager.refusal(OpenRequest(old, "s1", limit=1))
    assert refused.reason == "permission_changed"
    assert "permissions changed since the grant: ask for a new grant" in refused.message
    for grant in (of_another, manager.grant("carol")):
        with manager.session(grant) as session:
            session.ask_one_page()


# --- how it says no ---


def test_a_grant_from_elsewhere_opens_nothing(manager: ManagerProcess) -> None:
    refused = manager.refusal(OpenRequest(Grant("alice", (), "0" * 32, 0), "s1", limit=1))
    assert refused.reason == "unknown_grant"
    assert "may have restarted: ask for a new grant" in refused.message


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (GrantRequest("  "), "principal is blank: name who will read"),
        (GrantRequest("alice", ("a",) * 257), "there are 257 labels: at most 256 are allowed"),
        (PermissionChange(), "a permission change must name"),
        (PermissionChange(labels=()), "labels is empty"),
        (PermissionChange("alice", everyone=True), "everyone=True excludes"),
    ],
)
def test_a_request_without_meaning_fails_in_words_and_changes_nothing(
    manager: ManagerProcess, request_: GrantRequest | PermissionChange, message: str
) -> None:
    epoch = manager.status().epoch
    assert message in manager.ask(request_, Failure).message
    assert manager.status().epoch == epoch


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"\xff\xfe",
        b"[]",
        b'{"type":"shout"}',
        b'{"type":"attach"}',
        b'{"type":"grant","principal":"alice","labels":[],"instance":"","epoch":0}',
        b'{"type":"grant_request","principal":"alice","extra":1}',
        b'{"type":"grant_request"}',
        b'{"type":"grant_request","principal":"\xff"}',
    ],
)
def test_a_control_message_that_is_none_fails_in_words(manager: ManagerProcess, body: bytes) -> None:
    reply = manager.say(body)
    assert isinstance(reply, Failure)
    assert reply.message.startswith("the manager did not understand: ")


def test_a_control_message_over_a_megabyte_is_dropped_and_the_next_is_served(manager: ManagerProcess) -> None:
    with manager.control() as flooding:
        flooding.send(b'{"type":"grant_request","principal":"' + b"a" * 1024 * 1024 + b'"}')
        assert manager.grant().principal == "alice"
        assert not flooding.poll(0)


def test_a_line_at_the_door_that_is_none_is_refused_in_words(manager: ManagerProcess) -> None:
    refused = manager.refusal(b'{"type":"grant_request","principal":"alice"}\n')
    assert refused.reason == "bad_request"
    assert "the door did not understand" in refused.message
