"""Whatever happens to sessions, in whatever order: the promises that the table alone can keep or break.

A small model stands for the world: a template with a mailbox in each direction, and one process for each fork.
Sessions must never call dead what lives in the model (I1), never open under an outdated grant (I3), and give every
end a reason (I8); nothing may be asked for a session that has ended, and each client hears one answer.
"""

from collections import deque
from collections.abc import Iterable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hintcell_manager import sessions as sessions_module
from hintcell_manager.grants import Grants, Subject, matches
from hintcell_manager.protocol import EndReason, Grant, GrantRequest, OpenRequest, PermissionChange
from hintcell_manager.sessions import Instruction, Kill, OpenRefusedError, Session, Sessions, StartWorker, State

_UNREPORTED_STARTS = 3
_STEPS_AT_LEAST = 5_000
_NOBODY = -1

_principals = st.sampled_from(["alice", "bob"])
_labels = st.sampled_from([(), ("a",), ("a", "b")])
_snapshots = st.sampled_from(["s1", "s2"])
_changes = (
    st.just(PermissionChange(everyone=True))
    | st.builds(PermissionChange, principal=_principals, labels=st.sampled_from([None, ("b",)]))
    | st.builds(PermissionChange, snapshot_id=_snapshots)
)
_any_one = st.integers(0, 1_000)  # Which of those there are, modulo their number.
_statuses = st.sampled_from([0, 1, 2, -11])
_reasons: st.SearchStrategy[EndReason] = st.sampled_from(["idle_timeout", "memory_limit", "lifetime"])


class Process:
    """A worker of the model; `status` is None while it lives, also while a signal to kill it is on its way."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pid = 1000 + session.token
        self.status: int | None = None
        self.is_doomed = False
        self.is_reaped = False

    def exit(self, status: int) -> None:
        if self.status is None:
            self.status = status


class World(RuleBasedStateMachine):
    """Everything that can happen to the sessions of one manager."""

    steps = 0
    granted: Bundle[Grant] = Bundle("granted")

    def __init__(self) -> None:
        super().__init__()
        self.grants = Grants()
        self.sessions = Sessions(self.grants)
        self.now = 0.0
        self.all: list[Session] = []
        self.answers: dict[int, list[type[Instruction]]] = {}
        self.recorded: list[tuple[int, PermissionChange]] = []
        self.matched: list[list[Session]] = []
        self.template_lives = True
        self.asked: deque[Session] = deque()  # forks that the template was asked for
        self.said: deque[tuple[str, Session]] = deque()  # what it answered, not heard yet
        self.heard: list[tuple[str, Session]] = []
        self.processes: dict[int, Process] = {}

    def perform(self, instructions: Iterable[Instruction], *, ended: set[int], can_ask: bool = True) -> None:
        for instruction in instructions:
            session = instruction.session
            assert session.token not in ended, "an instruction for a session that has ended"
            if isinstance(instruction, Kill):
                self.processes[session.token].is_doomed = True
            elif not isinstance(instruction, StartWorker):
                self.answers[session.token].append(type(instruction))
            elif self.template_lives and can_ask:
                self.asked.append(session)
            else:
                failed = self.sessions.start_failed(session, "the template takes no requests", self.now)
                self.perform(failed, ended=ended)

    def ended(self) -> set[int]:
        self.now += 1
        return {session.token for session in self.all if session.state is State.ENDED}

    # --- clients ---

    @rule(target=granted, principal=_principals, labels=_labels)
    def a_grant_is_asked_for(self, principal: str, labels: tuple[str, ...]) -> Grant:
        return self.grants.grant(GrantRequest(principal, labels))

    @rule(grant=granted, snapshot_id=_snapshots)
    def a_client_opens(self, grant: Grant, snapshot_id: str) -> None:
        self.ended()
        subject = Subject(grant.principal, grant.labels, snapshot_id)
        is_outdated = any(epoch > grant.epoch and matches(change, subject) for epoch, change in self.recorded)
        try:
            session = self.sessions.open(OpenRequest(grant, snapshot_id, limit=1), self.now)
        except OpenRefusedError:
            assert is_outdated
        else:
            assert not is_outdated, "an outdated grant opened a session"
            self.all.append(session)
            self.answers[session.token] = []

    @precondition(lambda self: self.template_lives)
    @rule(principal=_principals, labels=_labels, snapshot_id=_snapshots, runs=st.booleans())
    def a_client_opens_with_a_new_grant(
        self, principal: str, labels: tuple[str, ...], snapshot_id: str, runs: bool
    ) -> None:
        """What happens most of the time, in one step, so that the rest has something to happen to."""
        self.a_client_opens(self.grants.grant(GrantRequest(principal, labels)), snapshot_id)
        self.it_is_somebodys_turn(can_ask=True)
        if runs:
            self.the_template_forks(fails=_NOBODY)
            self.the_manager_hears_the_template(len(self.said))

    @rule(change=_changes)
    def permissions_change(self, change: PermissionChange) -> None:
        ended = self.ended()
        self.recorded.append((self.grants.record(change), change))
        matching = self.sessions.matching(change)
        assert matching == [s for s in self.all if s.state is not State.ENDED and matches(change, s.subject)]
        self.matched.append(matching)
        for session in matching:
            self.perform(self.sessions.end(session, "permission_changed", "", self.now), ended=ended)

    @precondition(lambda self: self.all)
    @rule(which=_any_one, reason=_reasons)
    def somebody_ends_a_session(self, which: int, reason: EndReason) -> None:
        ended = self.ended()
        session = self.all[which % len(self.all)]
        self.perform(self.sessions.end(session, reason, "", self.now), ended=ended)

    # --- the template and its workers ---

    @rule(can_ask=st.sampled_from([True, True, True, False]))
    def it_is_somebodys_turn(self, can_ask: bool) -> None:
        ended = self.ended()
        self.perform(self.sessions.start_waiting(), ended=ended, can_ask=can_ask)

    @precondition(lambda self: self.asked)
    @rule(fails=st.sampled_from([_NOBODY, 0, 1]))
    def the_template_forks(self, fails: int) -> None:
        """Take all requests; the one with this number, counted from the last, if there are so many, fails."""
        while self.asked:
            session = self.asked.popleft()
            if len(self.asked) == fails:
                self.said.append(("fork failed", session))
            else:
                self.processes[session.token] = Process(session)
                self.said.append(("forked", session))

    @precondition(lambda self: self.processes)
    @rule(which=_any_one, status=_statuses)
    def a_worker_exits(self, which: int, status: int) -> None:
        list(self.processes.values())[which % len(self.processes)].exit(status)

    @precondition(lambda self: any(process.is_doomed for process in self.processes.values()))
    @rule()
    def the_killed_die(self) -> None:
        for process in self.processes.values():
            if process.is_doomed:
                process.exit(-9)

    @precondition(lambda self: self.template_lives)
    @rule()
    def the_template_reaps(self) -> None:
        for process in self.processes.values():
            if process.status is not None and not process.is_reaped:
                process.is_reaped = True
                self.said.append(("exited", process.session))

    @precondition(lambda self: self.said)
    @rule(messages=st.integers(1, 3))
    def the_manager_hears_the_template(self, messages: int) -> None:
        for _ in range(min(messages, len(self.said))):
            self.heard.append(self.said.popleft())
            self.hear(*self.heard[-1])

    @precondition(lambda self: self.heard)
    @rule(which=_any_one)
    def the_manager_hears_something_again(self, which: int) -> None:
        self.hear(*self.heard[which % len(self.heard)])

    def hear(self, what: str, session: Session) -> None:
        ended = self.ended()
        if what == "fork failed":
            self.perform(self.sessions.start_failed(session, "no process is left", self.now), ended=ended)
        elif what == "forked":
            self.perform(self.sessions.started(session, self.processes[session.token].pid, 0.0), ended=ended)
        else:
            self.sessions.exited(session, self.processes[session.token].status, self.now, last_words="", peak=1)

    @precondition(lambda self: self.processes)
    @rule(which=_any_one, status_is_lost=st.booleans())
    def the_manager_sees_an_exit(self, which: int, status_is_lost: bool) -> None:
        process = list(self.processes.values())[which % len(self.processes)]
        if process.status is not None and ("forked", process.session) in self.heard:
            self.ended()
            self.sessions.died(process.session, self.now)
            if status_is_lost:
                self.sessions.exited(process.session, None, self.now, last_words="", peak=None)

    @precondition(lambda self: self.template_lives)
    @rule()
    def the_template_is_killed(self) -> None:
        self.template_lives = False
        self.asked.clear()
        for process in self.processes.values():
            process.exit(-9)

    @precondition(lambda self: not self.template_lives)
    @rule()
    def the_template_is_buried_and_another_started(self) -> None:
        self.said.clear()
        for session in self.sessions.live():
            ended = self.ended()
            if session.state is not State.ADMITTED and session.pid is None:
                self.perform(self.sessions.start_failed(session, "the template died", self.now), ended=ended)
            elif session.state is not State.ADMITTED:
                status = self.processes[session.token].status
                self.sessions.exited(session, status, self.now, last_words="", peak=None)
        self.template_lives = True

    # --- what must hold ---

    @invariant()
    def it_is_counted(self) -> None:
        World.steps += 1

    @invariant()
    def a_session_that_is_dead_has_no_process_and_will_get_none(self) -> None:
        for session in self.all:
            if session.is_dead:
                assert session not in self.asked
                assert session.token not in self.processes or self.processes[session.token].status is not None

    @invariant()
    def a_change_that_is_complete_has_left_no_process_alive(self) -> None:
        for matched in self.matched:
            if all(session.is_dead for session in matched):
                living = {p.session.token for p in self.processes.values() if p.status is None}
                assert living.isdisjoint(session.token for session in matched)

    @invariant()
    def every_end_has_a_reason_and_every_client_one_answer(self) -> None:
        assert self.sessions.live() == [session for session in self.all if session.state is not State.ENDED]
        for session in self.all:
            answers = len(self.answers[session.token])
            if session.state is State.ENDED:
                assert session.reason is not None
                assert session.is_dead
            is_answered = session.state not in {State.ADMITTED, State.STARTING}
            assert answers == is_answered, (session.state, self.answers[session.token])
            assert self.sessions.find(session.id) is session

    @invariant()
    def the_template_holds_few_requests(self) -> None:
        unheard = [session for what, session in self.said if what != "exited"]
        assert len(self.asked) + len(unheard) <= _UNREPORTED_STARTS

    def teardown(self) -> None:
        """When the manager stops and everything answers, everything ends."""
        for session in self.sessions.live():
            ended = self.ended()
            self.perform(self.sessions.end(session, "manager_stopped", "", self.now), ended=ended)
        if self.template_lives:
            self.the_template_forks(fails=_NOBODY)
            self.the_manager_hears_the_template(len(self.said))
            self.the_killed_die()
            self.the_template_reaps()
            self.the_manager_hears_the_template(len(self.said))
        else:
            self.the_template_is_buried_and_another_started()
        assert self.sessions.live() == []
        self.every_end_has_a_reason_and_every_client_one_answer()
        assert all(session.is_dead for matched in self.matched for session in matched)


def test_the_promises_hold_whatever_happens_in_whatever_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_UNREPORTED_STARTS", _UNREPORTED_STARTS)
    run_state_machine_as_test(World, settings=settings(max_examples=150, stateful_step_count=60))
    assert World.steps >= _STEPS_AT_LEAST
