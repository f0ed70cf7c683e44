"""What the manager tells of its decisions: counts, events, and log lines that name nobody and nothing of a search."""

import logging

import pytest

from hintcell_manager import journal as journal_module
from hintcell_manager.grants import Grants
from hintcell_manager.journal import RECENT_S, Journal
from hintcell_manager.protocol import EndReason, Grant, GrantRequest, ManagerEvent, OpenRequest
from hintcell_manager.sessions import Session, Sessions

SECRETS = ("secret-principal", "secret-label", "secret-snapshot")


class Scene:
    """A journal, what it published, and the sessions it tells of."""

    def __init__(self) -> None:
        self.events: list[ManagerEvent] = []
        self.journal = Journal(self.events.append)
        self._grants = Grants()
        self._sessions = Sessions(self._grants)
        self._last_pid = 100

    def grant(self) -> Grant:
        principal, label, _ = SECRETS
        return self._grants.grant(GrantRequest(principal, (label,)))

    def opened(self) -> Session:
        session = self._sessions.open(OpenRequest(self.grant(), SECRETS[2], 1), 0.0)
        self._sessions.start_waiting()
        self._last_pid += 1
        self._sessions.started(session, self._last_pid, 1.0)
        self.journal.session_opened(session)
        return session

    def ended(self, session: Session, reason: EndReason) -> None:
        self._sessions.end(session, reason, f"because of {SECRETS}", 2.0)
        self._sessions.exited(session, -9, 3.0, last_words=f"{SECRETS}", peak=4_096)
        self.journal.session_ended(session, 2.5)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def everything(scene: Scene) -> None:
    """One of each decision."""
    scene.ended(scene.opened(), "memory_limit")
    scene.journal.open_refused("too_many_sessions", SECRETS[0])
    scene.journal.permission_changed(3, 0.25)
    scene.journal.template("ready", 77)


def test_each_decision_is_one_line_that_holds_no_principal_label_or_snapshot(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="hintcell.manager"):
        everything(scene)
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[0] for line in lines] == [event.kind for event in scene.events]
    assert [line.split()[0] for line in lines] == ["opened", "ended", "refused", "permission_changed", "template"]
    for line in lines:
        assert "\n" not in line
        assert not any(secret in line for secret in (*SECRETS, "secret"))


def test_a_line_says_which_session_why_and_how_long(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="hintcell.manager"):
        everything(scene)
    opened, ended, refused, changed, template = (record.getMessage() for record in caplog.records)
    session_id = scene.events[0].session_id
    assert opened == f"opened session_id={session_id} pid=101"
    assert ended == f"ended session_id={session_id} reason=memory_limit pid=101 took_s=2.5 peak_rss_bytes=4096"
    assert refused == "refused reason=too_many_sessions"
    assert changed == "permission_changed count=3 took_s=0.25"
    assert template == "template reason=ready pid=77"


def test_an_event_names_the_principal_and_nothing_of_the_search(scene: Scene) -> None:
    everything(scene)
    assert [event.principal for event in scene.events] == [SECRETS[0]] * 3 + [None] * 2
    assert all(secret not in repr(scene.events) for secret in SECRETS[1:])
    opened, ended = scene.events[:2]
    assert (opened.session_id, opened.pid) == (ended.session_id, ended.pid)
    assert (ended.reason, ended.took_s, ended.peak_rss_bytes) == ("memory_limit", 2.5, 4_096)


def test_counts_are_by_reason_and_complete(scene: Scene) -> None:
    reasons: list[EndReason] = ["completed", "lifetime", "completed", "memory_limit"]
    for reason in reasons:
        scene.ended(scene.opened(), reason)
    for refusal in ("memory_budget", "too_many_sessions", "memory_budget"):
        scene.journal.open_refused(refusal, "alice")
    assert scene.journal.opened == 4
    assert scene.journal.ended == {"completed": 2, "lifetime": 1, "memory_limit": 1}
    assert scene.journal.refused == {"memory_budget": 2, "too_many_sessions": 1}
    assert scene.journal.recent_ends() == dict(scene.journal.ended)


def test_recent_ends_forget_after_a_minute_and_counts_do_not(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr(journal_module.time, "monotonic", lambda: now)
    scene.ended(scene.opened(), "completed")
    now += RECENT_S / 2
    scene.ended(scene.opened(), "lifetime")
    assert scene.journal.recent_ends() == {"completed": 1, "lifetime": 1}
    now += RECENT_S / 2 + 1
    assert scene.journal.recent_ends() == {"lifetime": 1}
    now += RECENT_S
    assert scene.journal.recent_ends() == {}
    assert scene.journal.ended == {"completed": 1, "lifetime": 1}
