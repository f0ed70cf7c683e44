"""The limit on one session's memory, and the budget of all: what grows is ended, what has no room waits.

The worker allocates because a patch of the template makes it, when a query says so; the product has no such hook.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client, ManagerOptions, OpenRefused, SessionEnded
from hintcell_manager.room import RESERVE_BYTES
from tests.client.searches import catalog, next_cursor, search
from tests.faults.patches import Patches
from tests.faults.processes import SOON_S, Family, assert_none_left, until

MIB = 1024 * 1024
LIMIT_BYTES = 64 * MIB
# What the worker may get beyond the limit before somebody looks: the machine is not to be filled by a failing test.
STOPS_AT_BYTES = 512 * MIB
SAMPLE_S = 0.1

_ALLOCATES = f"""
import os, time
from hintcell_worker import ranking
rank = ranking.rank
def greedily(request, *arguments, **options):
    held = []
    while "allocate" in request.query:
        if len(held) < {STOPS_AT_BYTES // MIB}:
            held.append(b"\\1" * {MIB})
        time.sleep(0.001)
    return rank(request, *arguments, **options)
ranking.rank = greedily
"""


@pytest.fixture
def limited(patches: Patches, runtime: Path) -> Iterator[Client]:
    patches.template(_ALLOCATES)
    options = ManagerOptions(memory_limit_bytes=LIMIT_BYTES, sample_interval_s=SAMPLE_S)
    with Client(options=options) as client:
        search(client, client.grant("warm")).close()
        yield client


class Reader(threading.Thread):
    """Turns the pages of a session again and again until told to stop; an error of it is kept."""

    def __init__(self, client: Client, principal: str) -> None:
        super().__init__()
        self.turned = 0
        self.error: BaseException | None = None
        self._stop_turning = threading.Event()
        self._client = client
        self._principal = principal
        self.start()

    def run(self) -> None:
        try:
            with search(self._client, self._client.grant(self._principal)) as session:
                expected = list(session)
                while not self._stop_turning.is_set():
                    assert list(session) == expected
                    self.turned += len(expected)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def stop(self) -> None:
        self._stop_turning.set()
        self.join(SOON_S)
        assert not self.is_alive()


def test_a_session_that_allocates_without_bound_ends_and_its_neighbours_do_not_notice(limited: Client) -> None:
    neighbours = [Reader(limited, f"neighbour {number}") for number in range(2)]
    try:
        until(lambda: all(neighbour.turned or neighbour.error for neighbour in neighbours))
        with search(limited, limited.grant("greedy"), query="allocate") as session:
            before = [neighbour.turned for neighbour in neighbours]
            with Family(limited, session) as family:
                with pytest.raises(SessionEnded) as end:
                    session.page()
                assert_none_left(family.workers)
        during = [neighbour.turned for neighbour in neighbours]
        until(lambda: all(now.turned > then for now, then in zip(neighbours, during, strict=True)))
    finally:
        for neighbour in neighbours:
            neighbour.stop()
    assert [neighbour.error for neighbour in neighbours] == [None, None]
    assert all(now > then for now, then in zip(during, before, strict=True)), "they read while it grew"
    assert (end.value.reason, end.value.exit_status) == ("memory_limit", -9)
    assert f"exceeds the limit of {LIMIT_BYTES}" in end.value.message
    told = limited.end_of(session.id)
    assert told.reason == "memory_limit"
    assert LIMIT_BYTES < (told.peak_rss_bytes or 0) < STOPS_AT_BYTES
    status = limited.status()
    assert status.ended["memory_limit"] == status.recent_ends["memory_limit"] == 1


def test_a_session_at_the_request_s_limits_stays_below_a_sensible_limit(limited: Client) -> None:
    with search(limited, limited.grant("alice"), documents=catalog(4_096, text_bytes=512), limit=4_096) as session:
        assert session.page().total == 4_096
        until(lambda: any(each.uss_bytes for each in limited.status().sessions))
        assert session.page().total == 4_096


# --- the budget ---

# Room for one session that was never measured, and not for two.
BUDGET_BYTES = RESERVE_BYTES + RESERVE_BYTES // 2
_HOLDS = f"""
from hintcell_worker import ranking
rank = ranking.rank
held = []
def holding(request, *arguments, **options):
    if "hold" in request.query:
        held.append(b"\\1" * {RESERVE_BYTES})
    return rank(request, *arguments, **options)
ranking.rank = holding
"""


def budgeted(open_wait_s: float) -> Client:
    return Client(
        options=ManagerOptions(
            memory_budget_bytes=BUDGET_BYTES, open_wait_s=open_wait_s, sample_interval_s=SAMPLE_S, launcher="template"
        )
    )


def until_measured(client: Client) -> None:
    """The one session's USS was read after it took what it holds; an earlier look would have left room."""
    until(lambda: [(each.uss_bytes or 0) > RESERVE_BYTES for each in client.status().sessions] == [True])


def test_over_the_budget_an_open_waits_and_is_then_refused_with_the_numbers(patches: Patches, runtime: Path) -> None:
    patches.template(_HOLDS)
    with budgeted(open_wait_s=0.3) as client, search(client, client.grant("alice"), query="hold read") as session:
        cursor = next_cursor(session.page())
        until_measured(client)
        with pytest.raises(OpenRefused) as refusal:
            search(client, client.grant("bob"))
        assert refusal.value.reason == "memory_budget"
        message = str(refusal.value)
        assert f"of the budget of {BUDGET_BYTES}" in message
        assert f"needs up to {RESERVE_BYTES}" in message
        assert "close some, or raise the budget" in message
        assert client.status().refused == {"memory_budget": 1}
        assert session.page(cursor).offset == 20


def test_an_open_that_waits_for_the_budget_is_served_when_a_session_closes(patches: Patches, runtime: Path) -> None:
    patches.template(_HOLDS)
    with budgeted(open_wait_s=60.0) as client:
        held = search(client, client.grant("alice"), query="hold read")
        held.page()
        until_measured(client)
        totals: list[int] = []

        def wait() -> None:
            with search(client, client.grant("bob")) as session:
                totals.append(session.page().total)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: [each.state for each in client.status().sessions] == ["running", "admitted"])
        assert totals == []
        held.close()
        thread.join(SOON_S)
        assert totals == [50]


def test_a_permission_change_refuses_an_open_that_waits_for_the_budget(patches: Patches, runtime: Path) -> None:
    patches.template(_HOLDS)
    with budgeted(open_wait_s=60.0) as client, search(client, client.grant("alice"), query="hold read") as held:
        held.page()
        until_measured(client)
        refusals: list[str] = []

        def wait() -> None:
            try:
                search(client, client.grant("bob")).close()
            except OpenRefused as refusal:
                refusals.append(refusal.reason)

        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: [each.state for each in client.status().sessions] == ["running", "admitted"])
        assert [ended.pid for ended in client.permission_changed(principal="bob").ended] == [None]
        thread.join(SOON_S)
        assert refusals == ["permission_changed"]
        assert held.page().total == 50
