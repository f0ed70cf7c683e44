"""Subscriptions to events: what is heard begins at the call, and ends with whatever ends first, which never hangs."""

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from hintcell import AsyncClient, Client, DeadlineExceeded, HintcellError, ManagerEvent, ManagerUnavailable
from hintcell import listening as listening_module
from tests.client.searches import SOON_S, serving

_ROUNDS = 20


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def within(call: Callable[[], object]) -> None:
    """Run it in a thread of its own, which must end soon."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(SOON_S)
    assert not thread.is_alive(), "it hangs"


def first_change(events: Iterator[ManagerEvent]) -> ManagerEvent:
    return next(event for event in events if event.kind == "permission_changed")


def test_what_happens_after_the_call_is_heard_however_late_it_is_asked_for(client: Client) -> None:
    for number in range(_ROUNDS):
        events = client.events()
        epoch = client.permission_changed(principal="nobody").epoch
        client.permission_changed(session_id="none")
        assert first_change(events).count == 0, number
        assert first_change(events).count == 0, number
        assert client.status().epoch == epoch + 1
        del events


def test_who_listens_hears_nothing_of_others_who_begin_to(client: Client) -> None:
    events = client.events()
    others = [client.events() for _ in range(3)]
    client.permission_changed(principal="nobody")
    assert [first_change(each).kind for each in (events, *others)] == ["permission_changed"] * 4


@pytest.mark.parametrize("is_begun", [True, False], ids=["begun", "not begun"])
def test_closing_a_client_ends_an_iteration_that_is_suspended(client_type: type[Client], is_begun: bool) -> None:
    client = client_type()
    events = client.events()
    if is_begun:
        client.permission_changed(principal="nobody")
        next(events)
    within(client.close)
    assert list(events) == []


def test_closing_a_client_ends_an_iteration_that_waits_in_another_thread(client_type: type[Client]) -> None:
    with client_type() as client:
        heard: list[ManagerEvent] = []
        events = client.events()
        thread = threading.Thread(target=lambda: heard.extend(events), daemon=True)
        thread.start()
        client.permission_changed(principal="nobody")
        while not heard:
            assert thread.is_alive()
        within(client.close)
        thread.join(SOON_S)
        assert not thread.is_alive()


def test_closing_a_client_inside_its_iteration_ends_it(client_type: type[Client]) -> None:
    client = client_type()
    kinds: list[str] = []

    def iterate() -> None:
        events = client.events()
        client.permission_changed(principal="nobody")
        for event in events:
            kinds.append(event.kind)
            client.close()

    within(iterate)
    assert len(kinds) == 1


def test_closing_a_client_in_a_signal_handler_ends_the_iteration_below_it() -> None:
    client = Client()
    events = client.events()
    before = signal.signal(signal.SIGALRM, lambda *_: client.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert {event.kind for event in events} <= {"template"}
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_subscription_that_is_dropped_gives_its_descriptors_back(client: Client) -> None:
    def listen() -> None:
        events = client.events()
        client.permission_changed(principal="nobody")
        assert first_change(events)

    listen()
    gc.collect()
    before = descriptors()
    for _ in range(3):
        listen()
        client.events()
        gc.collect()
        assert descriptors() <= before


def test_a_subscription_that_is_closed_is_over_and_the_client_is_not() -> None:
    with Client() as client:
        events = client.events()
        events.close()
        events.close()
        assert list(events) == []
        assert client.status().pid == client.manager_pid


def test_an_asyncio_subscription_outlives_neither_its_loop_nor_its_client() -> None:
    before = descriptors()

    async def listen(how: str) -> None:
        client = AsyncClient()
        await client.start()
        events = await client.events()
        await client.permission_changed(principal="nobody")
        await anext(events)
        if how == "waiting":
            task = asyncio.create_task(_all(events))
            await asyncio.sleep(0)
            await client.close()
            assert "permission_changed" not in await asyncio.wait_for(task, SOON_S)
        if how == "closed":
            events.close()
            assert await _all(events) == []
        await client.close()
        assert await asyncio.wait_for(_all(events), SOON_S) == []

    for how in ("suspended", "waiting", "closed"):
        asyncio.run(listen(how), debug=True)
    gc.collect()
    assert descriptors() <= before + 2, "pyzmq and asyncio may keep one each"


async def _all(events: Any) -> list[str]:
    return [event.kind async for event in events]


def test_a_closed_client_does_not_listen(client_type: type[Client]) -> None:
    client = client_type()
    client.close()
    with pytest.raises(HintcellError, match="is closed"):
        client.events()


def test_a_manager_that_stands_still_is_not_waited_for_longer_than_was_said(
    client_type: type[Client], directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening_module, "LISTEN_DEADLINE_S", 0.3)
    with serving(directory) as manager, client_type(directory) as client:
        before = descriptors()
        psutil.Process(manager.pid).suspend()
        try:
            with pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
                client.events()
        finally:
            psutil.Process(manager.pid).resume()
        assert descriptors() <= before


def test_a_manager_that_is_gone_is_told(client_type: type[Client], directory: Path) -> None:
    with serving(directory) as manager, client_type(directory) as client:
        events = client.events()
        manager.kill()
        manager.wait(SOON_S)
        assert {event.kind for event in events} <= {"template"}
        with pytest.raises(ManagerUnavailable):
            client.events()
