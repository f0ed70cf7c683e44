"""Sessions as the service asks for them: who may open, whose turn it is, why a session ended, and who is found."""

import pytest

from hintcell_manager.protocol import (
    EndReason,
    Grant,
    GrantRequest,
    ManagerOptions,
    OpenRequest,
    PermissionChange,
    RefusalReason,
)
from hintcell_manager.room import RESERVE_BYTES
from hintcell_manager.sessions import (
    MAX_REMEMBERED_ENDS,
    MAX_UNREPORTED_STARTS,
    Kill,
    OpenRefusedError,
    Refuse,
    Session,
    Sessions,
    StartWorker,
    State,
)
from hintcell_worker.protocol import NOTHING_ASKED, Limits
from tests.manager.opening import PID, Opening


@pytest.fixture
def opening() -> Opening:
    return Opening()


# --- who may open ---


def test_a_session_is_admitted_with_what_was_asked_for(opening: Opening) -> None:
    session = opening.open("alice", ("repo/a",), "s7")
    assert session.state is State.ADMITTED
    assert (session.subject.principal, session.subject.labels) == ("alice", ("repo/a",))
    assert (session.subject.snapshot_id, session.subject.session_id) == ("s7", session.id)
    assert (session.pid, session.reason, session.is_dead, session.admitted_at) == (None, None, False, 1.0)


@pytest.mark.parametrize(
    ("instance", "epoch"), [("another manager's", 0), (None, 1), (None, -1)], ids=["instance", "future", "negative"]
)
def test_a_grant_that_this_manager_did_not_issue_opens_nothing(
    opening: Opening, instance: str | None, epoch: int
) -> None:
    grant = Grant("alice", (), instance or opening.grants.instance, epoch)
    with pytest.raises(OpenRefusedError, match="ask for a new grant") as refused:
        opening.sessions.open(OpenRequest(grant, "s1", limit=10), now=1.0)
    assert refused.value.reason == "unknown_grant"
    assert opening.sessions.live() == []


def test_an_outdated_grant_opens_nothing_and_a_new_one_does(opening: Opening) -> None:
    grant = opening.grants.grant(GrantRequest("alice"))
    opening.grants.record(PermissionChange("alice"))
    with pytest.raises(OpenRefusedError, match="permissions changed since the grant: ask for a new grant") as refused:
        opening.sessions.open(OpenRequest(grant, "s1", limit=10), now=1.0)
    assert refused.value.reason == "permission_changed"
    assert opening.sessions.live() == []
    assert opening.open("alice").state is State.ADMITTED


def test_ids_and_tokens_are_never_used_twice(opening: Opening) -> None:
    sessions = [opening.open() for _ in range(500)]
    for session in sessions[::2]:
        opening.sessions.end(session, "completed", "", now=2.0)
    sessions += [opening.open() for _ in range(500)]
    assert len({session.id for session in sessions}) == len({session.token for session in sessions}) == 1000
    assert all(len(session.id) == 16 for session in sessions)


# --- whose turn it is ---


def _started(sessions: Sessions) -> list[Session]:
    instructions = sessions.start_waiting()
    assert all(isinstance(instruction, StartWorker) for instruction in instructions)
    return [instruction.session for instruction in instructions]


def test_sessions_start_oldest_first_and_no_more_than_the_template_may_hold_unreported(opening: Opening) -> None:
    waiting = [opening.open() for _ in range(MAX_UNREPORTED_STARTS + 3)]
    assert _started(opening.sessions) == waiting[:MAX_UNREPORTED_STARTS]
    assert _started(opening.sessions) == []
    opening.sessions.started(waiting[5], PID, 0.0)
    assert _started(opening.sessions) == [waiting[MAX_UNREPORTED_STARTS]]
    opening.sessions.start_failed(waiting[0], "no process", now=2.0)
    opening.sessions.started(waiting[1], PID + 1, 0.0)
    assert _started(opening.sessions) == waiting[MAX_UNREPORTED_STARTS + 1 :]
    assert _started(opening.sessions) == []


def test_a_session_that_ended_while_it_waited_is_not_started_and_takes_nobodys_turn(opening: Opening) -> None:
    waiting = [opening.open() for _ in range(MAX_UNREPORTED_STARTS + 2)]
    for session in waiting[:2]:
        opening.sessions.end(session, "permission_changed", "", now=2.0)
    assert _started(opening.sessions) == waiting[2:]


def test_a_session_that_must_end_during_its_fork_keeps_its_place_until_the_fork_is_reported(opening: Opening) -> None:
    waiting = [opening.open() for _ in range(MAX_UNREPORTED_STARTS + 1)]
    _started(opening.sessions)
    opening.sessions.end(waiting[0], "permission_changed", "", now=2.0)
    assert _started(opening.sessions) == []
    opening.sessions.started(waiting[0], PID, 0.0)
    assert _started(opening.sessions) == [waiting[-1]]


def test_a_session_that_must_end_during_its_fork_is_killed_as_soon_as_its_pid_is_known(opening: Opening) -> None:
    session = opening.open()
    opening.sessions.start_waiting()
    refused = opening.sessions.end(session, "permission_changed", "permissions changed", now=2.0)
    assert refused == [Refuse(session, "permission_changed", "permissions changed")]
    assert not session.is_dead, "its process may exist"
    assert opening.sessions.started(session, PID, 0.0) == [Kill(session)]
    assert (session.pid, session.is_dead) == (PID, False)
    opening.exit(session, -9)
    assert (session.state, session.reason, session.is_dead) == (State.ENDED, "permission_changed", True)


# --- why it ended ---


@pytest.mark.parametrize(
    ("status", "last_words", "reason", "message"),
    [
        (0, "a warning\n", "completed", ""),
        (2, "hintcell-worker: query is blank: give it a word\n", "rejected", "query is blank: give it a word"),
        (2, "a warning\nhintcell-worker: too long\n", "rejected", "too long"),
        (2, "", "rejected", ""),
        (2, f"hintcell-worker: {NOTHING_ASKED}\n", "completed", ""),
        (1, "hintcell-worker: out of memory\n", "crashed", "the worker ended with status 1"),
        (3, "", "crashed", "the worker ended with status 3"),
        (-9, "", "crashed", "the worker was ended by signal 9"),
        (-11, "Segmentation fault\n", "crashed", "the worker was ended by signal 11"),
        (None, "", "crashed", "the worker died, and its exit status is not known"),
    ],
)
@pytest.mark.parametrize("seen_dead", [False, True], ids=["status at once", "seen dead before"])
def test_when_nobody_decided_the_exit_status_gives_the_reason(
    opening: Opening, status: int | None, last_words: str, reason: EndReason, message: str, seen_dead: bool
) -> None:
    session = opening.running()
    if seen_dead:
        opening.sessions.died(session, now=3.0)
    opening.exit(session, status, last_words=last_words)
    assert (session.state, session.reason, session.message) == (State.ENDED, reason, message)
    assert (session.exit_status, session.last_words, session.peak_rss_bytes) == (status, last_words, 12_345)
    assert session.died_at == (3.0 if seen_dead else 9.0)


@pytest.mark.parametrize("status", [0, 1, 2, -9, None])
def test_who_decides_first_gives_the_reason_whatever_comes_after(opening: Opening, status: int | None) -> None:
    session = opening.running()
    assert opening.sessions.end(session, "memory_limit", "over 64 MiB", now=2.0) == [Kill(session)]
    assert opening.sessions.end(session, "permission_changed", "permissions changed", now=3.0) == []
    opening.exit(session, status, last_words="hintcell-worker: no")
    assert (session.reason, session.message, session.exit_status) == ("memory_limit", "over 64 MiB", status)


def test_a_decision_after_the_exit_was_seen_is_no_reason(opening: Opening) -> None:
    session = opening.running()
    opening.sessions.died(session, now=2.0)
    assert opening.sessions.end(session, "permission_changed", "permissions changed", now=3.0) == []
    opening.exit(session, 0)
    assert (session.reason, session.message) == ("completed", "")


def test_what_is_known_of_an_end_does_not_change_when_it_is_told_again(opening: Opening) -> None:
    session = opening.running()
    opening.exit(session, -9, last_words="first")
    opening.exit(session, None, last_words="second")
    opening.sessions.died(session, now=20.0)
    assert (session.exit_status, session.last_words, session.died_at) == (-9, "first", 9.0)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("permission_changed", "permission_changed"),
        ("manager_stopped", "manager_stopped"),
        ("lifetime", "cannot_start"),
    ],
)
@pytest.mark.parametrize("starting", [False, True], ids=["admitted", "starting"])
def test_a_client_without_a_worker_hears_why_there_will_be_none(
    opening: Opening, reason: EndReason, told: RefusalReason, starting: bool
) -> None:
    session = opening.open()
    if starting:
        opening.sessions.start_waiting()
    assert opening.sessions.end(session, reason, "so it is", now=2.0) == [Refuse(session, told, "so it is")]
    assert session.is_dead is not starting


@pytest.mark.parametrize("starting", [False, True], ids=["admitted", "starting"])
def test_a_client_whose_worker_cannot_start_hears_what_is_wrong(opening: Opening, starting: bool) -> None:
    session = opening.open()
    if starting:
        opening.sessions.start_waiting()
    refused = opening.sessions.start_failed(session, "no process is left", now=2.0)
    assert refused == [Refuse(session, "cannot_start", "no process is left")]
    assert (session.state, session.reason, session.is_dead) == (State.ENDED, "crashed", True)


# --- who is found ---


def test_a_session_is_found_by_its_id_while_it_lives_and_after(opening: Opening) -> None:
    living, ended = opening.running(), opening.ended()
    assert opening.sessions.find(living.id) is living
    assert opening.sessions.find(ended.id) is ended
    assert opening.sessions.find("0123456789abcdef") is None


def test_only_the_living_are_known_by_their_token_or_matched_by_a_change(opening: Opening) -> None:
    ended, living, another = opening.ended(), opening.running(), opening.open("bob")
    assert opening.sessions.live() == [living, another]
    assert opening.sessions.by_token(living.token) is living
    assert opening.sessions.by_token(ended.token) is None
    assert opening.sessions.matching(PermissionChange(everyone=True)) == [living, another]
    assert opening.sessions.matching(PermissionChange("alice")) == [living]
    assert opening.sessions.matching(PermissionChange(session_id=another.id)) == [another]
    assert opening.sessions.matching(PermissionChange("alice", session_id=another.id)) == []


def test_a_session_that_is_ending_still_is_matched_because_it_may_not_be_dead(opening: Opening) -> None:
    session = opening.running()
    opening.sessions.end(session, "lifetime", "", now=2.0)
    assert opening.sessions.matching(PermissionChange("alice")) == [session]


def test_only_the_last_ends_are_remembered() -> None:
    opening = Opening(max_ends=3)
    ended = [opening.ended() for _ in range(5)]
    living = opening.running()
    assert [opening.sessions.find(session.id) for session in ended] == [None, None, *ended[2:]]
    assert opening.sessions.find(living.id) is living


def test_by_default_a_thousand_ends_are_remembered() -> None:
    opening = Opening()
    ended = [opening.ended() for _ in range(MAX_REMEMBERED_ENDS + 1)]
    assert MAX_REMEMBERED_ENDS >= 1000
    assert opening.sessions.find(ended[0].id) is None
    assert opening.sessions.find(ended[1].id) is ended[1]


def test_a_session_over_its_memory_limit_is_ended_when_a_second_look_confirms_it() -> None:
    opening = Opening(ManagerOptions(memory_limit_bytes=100))
    session = opening.running()
    assert not opening.sessions.measured(session, 100)
    assert opening.sessions.measured(session, 101)
    assert session.state is State.RUNNING
    assert opening.sessions.limit_memory(session, 100, 1.0) == []
    assert opening.sessions.limit_memory(session, 101, 1.0) == [Kill(session)]
    assert (session.reason, session.message) == ("memory_limit", "its USS of 101 bytes exceeds the limit of 100")


def test_a_session_is_idle_when_its_worker_did_nothing_for_the_timeout() -> None:
    opening = Opening(ManagerOptions(idle_timeout_s=10.0))
    session = opening.running()
    assert opening.sessions.active(session, (1, 0.0), 5.0) == []
    assert opening.sessions.active(session, (1, 0.0), 14.9) == []
    assert opening.sessions.active(session, (2, 0.0), 15.0) == []
    assert opening.sessions.active(session, (2, 0.1), 24.9) == []
    assert opening.sessions.active(session, (2, 0.1), 34.8) == []
    assert opening.sessions.active(session, (2, 0.1), 34.9) == [Kill(session)]
    assert session.reason == "idle_timeout"


def test_opens_wait_for_room_and_those_who_waited_too_long_are_refused_with_the_numbers() -> None:
    opening = Opening(ManagerOptions(max_sessions=2, max_sessions_per_principal=1, open_wait_s=5.0))
    alice, again, bob, late = (opening.open(name) for name in ("alice", "alice", "bob", "carol"))
    assert opening.sessions.start_waiting() == [StartWorker(alice), StartWorker(bob)], "who has room overtakes"
    assert opening.sessions.tick(5.9) == []
    told = opening.sessions.tick(6.0)
    assert [(each.session, each.reason) for each in told if isinstance(each, Refuse)] == [
        (again, "too_many_sessions"),
        (late, "too_many_sessions"),
    ]
    assert again.message == "2 sessions are open, of 2: close one first"
    waits = opening.open("alice")
    opening.sessions.started(alice, 7, 6.0)
    opening.sessions.died(alice, 6.0)
    assert opening.sessions.start_waiting() == [StartWorker(waits)], "the dead take no room"


def test_a_session_with_raised_limits_needs_room_in_proportion() -> None:
    opening = Opening(ManagerOptions(memory_budget_bytes=3 * RESERVE_BYTES, open_wait_s=0.0))
    grant = opening.grants.grant(GrantRequest("alice"))
    large, small = (
        opening.sessions.open(OpenRequest(grant, "s", 1, limits=limits), 0.0)
        for limits in (Limits(max_text_bytes=8 * 2**20), Limits(max_text_bytes=6 * 2**20, max_documents=1))
    )
    assert opening.sessions.start_waiting() == [StartWorker(small)]
    (told,) = opening.sessions.tick(0.0)
    assert isinstance(told, Refuse)
    assert told.session is large
    assert f"a new one needs up to {4 * RESERVE_BYTES}" in told.message
