"""The table of states: what it lists happens, and what it does not list changes nothing."""

import itertools
from typing import Any

import pytest

from hintcell_manager.sessions import TABLE, Admit, Event, Kill, Refuse, Session, StartWorker, State
from tests.manager.opening import SITUATIONS, led_into, tell

# What cannot be told of a session in this situation: nobody forks or reaps for it a second time, nor before its turn.
_EXCLUDED_BY_THE_PID = {
    ("ending before its fork", Event.DIED),
    ("ending before its fork", Event.EXITED),
    ("ending after its fork", Event.START_FAILED),
    ("ending, seen dead", Event.START_FAILED),
    ("ending after its fork", Event.STARTED),
    ("ending, seen dead", Event.STARTED),
}
_PAIRS = list(itertools.product(SITUATIONS, Event))
_LISTED = [
    (situation, event)
    for situation, event in _PAIRS
    if (SITUATIONS[situation], event) in TABLE and (situation, event) not in _EXCLUDED_BY_THE_PID
]
_NOT_LISTED = [(situation, event) for situation, event in _PAIRS if (situation, event) not in _LISTED]


def _everything_about(session: Session) -> dict[str, Any]:
    return dict(vars(session))


def test_every_state_occurs_and_every_row_of_the_table_is_tried() -> None:
    assert set(SITUATIONS.values()) == set(State)
    assert {(SITUATIONS[situation], event) for situation, event in _LISTED} == set(TABLE)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_events_of_a_situation_lead_into_its_state(situation: str) -> None:
    _, session = led_into(situation)
    assert session.state is SITUATIONS[situation]


@pytest.mark.parametrize(("situation", "event"), _LISTED)
def test_a_listed_event_leads_into_the_listed_state_with_the_listed_instruction(situation: str, event: Event) -> None:
    opening, session = led_into(situation)
    step = TABLE[session.state, event]
    instructions = tell(opening, session, event)
    assert session.state is step.state
    assert instructions == ([] if step.instruction is None else [step.instruction(session)])


@pytest.mark.parametrize(("situation", "event"), _NOT_LISTED)
def test_an_event_that_is_not_listed_changes_nothing(situation: str, event: Event) -> None:
    opening, session = led_into(situation)
    before = _everything_about(session)
    assert tell(opening, session, event) == []
    assert _everything_about(session) == before
    assert (session in opening.sessions.live()) == (session.state is not State.ENDED)


@pytest.mark.parametrize(("situation", "event"), _PAIRS)
def test_an_event_that_comes_twice_adds_no_instruction_to_the_first(situation: str, event: Event) -> None:
    opening, session = led_into(situation)
    tell(opening, session, event)
    again = tell(opening, session, event)
    assert all(isinstance(instruction, Kill) for instruction in again), "only a kill may be repeated"


def test_nothing_leads_out_of_the_terminal_state_and_every_state_leads_there() -> None:
    assert not [state for state, _ in TABLE if state is State.ENDED]
    ends = {State.ENDED}
    for _ in State:
        ends |= {state for (state, _), step in TABLE.items() if step.state in ends}
    assert ends == set(State)


def test_a_worker_is_started_once_admitted_once_and_a_client_hears_one_answer() -> None:
    paths: list[tuple[State, tuple[str, ...]]] = [(State.ADMITTED, ())]
    seen = set(paths)
    while paths:
        state, said = paths.pop()
        assert sum(name in ("Admit", "_refuse") for name in said) <= 1, said
        assert said.count("StartWorker") <= 1, said
        if state is State.ENDED:
            assert "Admit" in said or "_refuse" in said, said
        for (before, event), step in TABLE.items():
            if before is state:
                name = "" if step.instruction is None else step.instruction.__name__
                after = (step.state, said if name in ("", "Kill") else (*said, name))
                if name == "Admit":
                    assert "StartWorker" in said, said
                if name == "Kill":
                    assert event is Event.STARTED or "Admit" in said, said
                if after not in seen:
                    seen.add(after)
                    paths.append(after)


def test_the_instructions_are_told_apart_by_their_type() -> None:
    opening, session = led_into("starting")
    assert tell(opening, session, Event.STARTED) == [Admit(session)]
    assert tell(opening, session, Event.END) == [Kill(session)]
    opening, session = led_into("admitted")
    assert tell(opening, session, Event.TURN) == [StartWorker(session)]
    assert tell(opening, session, Event.END) == [Refuse(session, "cannot_start", "it is over")]
