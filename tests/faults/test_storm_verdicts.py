"""The storm's model, without processes: what it calls a broken promise, and what it lets races excuse."""

import pytest

from hintcell import Grant, ManagerOptions
from tests.faults.storm import verdicts
from tests.faults.storm.ledger import ChangeRecord, Ledger, SessionRecord, Told, Who
from tests.faults.storm.messages import Process


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(ManagerOptions())


def session(ledger: Ledger, *, told_at: float = 1.0, opened_at: float | None = 2.0) -> SessionRecord:
    """One of ann's, over monday, asked for when its grant was a tenth of a second old."""
    told = Told(Grant("ann", ("repo:a",), "instance", 0), told_at, told_at + 0.1)
    record = SessionRecord("k", "owner", told, "monday", "small", "", told_at + 0.2)
    record.id, record.opened, record.worker = "id", opened_at, Process(10, 1)
    ledger.sessions["k"] = record
    return record


def change(
    ledger: Ledger,
    began: float,
    returned: float | None,
    *,
    principal: str | None = None,
    labels: tuple[str, ...] | None = None,
    session_id: str | None = None,
) -> ChangeRecord:
    everyone = (principal, labels, session_id) == (None, None, None)
    record = ChangeRecord(principal, labels, None, session_id, everyone, began, returned)
    ledger.changes.append(record)
    return record


def test_a_page_asked_for_after_a_matching_change_returned_is_too_late(ledger: Ledger) -> None:
    change(ledger, 3.0, 3.1, principal="ann")
    assert verdicts.page(ledger, session(ledger), 3.2) is not None


def test_a_page_asked_for_before_the_change_returned_is_not(ledger: Ledger) -> None:
    change(ledger, 3.0, 3.1, principal="ann")
    assert verdicts.page(ledger, session(ledger), 3.05) is None


@pytest.mark.parametrize("other", [{"principal": "bob"}, {"labels": ("repo:b",)}, {"session_id": "other"}])
def test_a_change_that_does_not_name_the_session_ends_nothing(ledger: Ledger, other: dict[str, str]) -> None:
    change(ledger, 3.0, 3.1, **other)  # type: ignore[arg-type]
    one = session(ledger)
    assert verdicts.over_since(ledger, one) is None
    assert verdicts.end(ledger, one, "permission_changed", "", 4.0) is not None


def test_a_session_opened_during_a_change_may_have_escaped_it_only_by_a_newer_grant(ledger: Ledger) -> None:
    change(ledger, 3.0, 3.5, principal="ann")
    assert verdicts.over_since(ledger, session(ledger, told_at=3.2, opened_at=3.4)) is None
    assert verdicts.over_since(ledger, session(ledger, told_at=2.0, opened_at=3.4)) == 3.5


def test_an_open_under_an_outdated_grant_must_be_refused(ledger: Ledger) -> None:
    change(ledger, 3.0, 3.1, labels=("repo:a", "repo:b"))
    one = session(ledger, opened_at=4.0)
    assert verdicts.opened(ledger, one, 3.2) is not None
    assert verdicts.opened(ledger, one, 3.05) is None


def test_a_refusal_for_changed_permissions_needs_a_change_since_the_grant(ledger: Ledger) -> None:
    one = session(ledger)
    assert verdicts.refusal(ledger, one, "permission_changed", 4.0) is not None
    change(ledger, 0.5, 0.9)
    assert verdicts.refusal(ledger, one, "permission_changed", 4.0) is not None
    change(ledger, 1.5, None)
    assert verdicts.refusal(ledger, one, "permission_changed", 4.0) is None


def test_an_end_that_nothing_caused_is_untrue_whatever_its_reason(ledger: Ledger) -> None:
    assert verdicts.reasons(ledger, session(ledger), 10.0) == set()


def test_what_began_after_the_death_was_seen_did_not_cause_it(ledger: Ledger) -> None:
    one = session(ledger)
    one.may_end("crashed", 3.0)
    one.died = 3.1
    change(ledger, 3.1 + verdicts.NOTICE_S / 2, 5.0)
    assert verdicts.reasons(ledger, one, 10.0) == {"crashed", "permission_changed"}
    ledger.changes.clear()
    change(ledger, 3.1 + verdicts.NOTICE_S * 2, 5.0)
    assert verdicts.reasons(ledger, one, 10.0) == {"crashed"}


def test_a_manager_that_is_stopped_notices_a_death_late(ledger: Ledger) -> None:
    one = session(ledger)
    one.may_end("crashed", 3.0)
    one.died = 3.1
    ledger.hinder(Who.MANAGER, 3.0).ended = 6.0
    change(ledger, 5.0, 7.0)
    assert verdicts.reasons(ledger, one, 10.0) == {"crashed", "permission_changed"}


def test_a_killed_template_explains_the_crash_of_its_own_workers_alone(ledger: Ledger) -> None:
    one = session(ledger)
    one.parent_pid = 20
    ledger.template_kills.append((21, 3.0))
    assert verdicts.reasons(ledger, one, 10.0) == set()
    ledger.template_kills.append((20, 3.0))
    assert verdicts.reasons(ledger, one, 10.0) == {"crashed"}


def test_an_idle_timeout_needs_a_session_that_was_idle_for_so_long() -> None:
    ledger = Ledger(ManagerOptions(idle_timeout_s=0.6))
    one = session(ledger)
    one.exchanges = [3.0]
    one.died = 3.4
    assert verdicts.end(ledger, one, "idle_timeout", "", 3.5) is not None
    one.died = 3.7
    assert verdicts.end(ledger, one, "idle_timeout", "", 3.8) is None


def test_a_slow_client_is_not_a_slow_ranking() -> None:
    ledger = Ledger(ManagerOptions(ranking_deadline_s=2.0))
    one = session(ledger)
    assert verdicts.end(ledger, one, "crashed", "ranking took over 2.0 s", 10.0) is not None
    one.trigger = "stormHang"
    assert verdicts.end(ledger, one, "crashed", "ranking took over 2.0 s", 10.0) is None


def test_who_asks_a_manager_that_is_gone_can_be_told_no_more_than_that(ledger: Ledger) -> None:
    one = session(ledger)
    change(ledger, 3.0, 3.1)
    assert verdicts.end(ledger, one, "manager_stopped", "", 4.0) is not None
    ledger.manager_end_began = 3.5
    assert verdicts.end(ledger, one, "manager_stopped", "", 4.0) is None


@pytest.mark.parametrize("error", ["DeadlineExceeded", "ProtocolViolated", "ControlFailed", "ManagerUnavailable"])
def test_an_error_needs_a_cause(ledger: Ledger, error: str) -> None:
    assert verdicts.failure(ledger, "owner", error, "", (3.0, 4.0)) is not None


def test_a_client_without_descriptors_explains_its_own_errors_alone(ledger: Ledger) -> None:
    ledger.hinder(Who.CLIENT, 3.0, name="owner", is_starved=True)
    assert verdicts.failure(ledger, "owner", "ManagerUnavailable", "", (3.0, 4.0)) is None
    assert verdicts.failure(ledger, "visitor", "ManagerUnavailable", "", (3.0, 4.0)) is not None
