"""Opens of the asyncio client that are cancelled wherever they are: nothing is left of them, and nothing hangs.

Covers the client, the manager and the workers of one client over many rounds. The points of cancellation are drawn
from a seed: a number of the event loop's steps for the early ones, a delay for those that wait for a process.
"""

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import psutil

from hintcell import AsyncClient, Grant
from tests.client.searches import catalog
from tests.faults.processes import LEFT_WITHIN_S, SOON_S, Watched

OPENS = 20
ROUNDS = 100
SEED = 20
# Beyond these, an open of a round is over.
MAX_STEPS = 60
MAX_DELAY_S = 0.08

# Each look has the manager read the memory of every session, which takes it from what is looked for.
_POLL_S = 0.05
_DOCUMENTS = catalog(20)


async def use(client: AsyncClient, grant: Grant) -> None:
    """A session from its opening to its close."""
    async with await client.open(grant, snapshot_id="s", query="config", documents=_DOCUMENTS, limit=7) as session:
        async for page in session:
            assert page.total == len(_DOCUMENTS)


async def cancelled_somewhere(client: AsyncClient, grant: Grant, chance: random.Random) -> str:
    """Use a session, cancel that at a random point, and tell what became of it."""
    steps = chance.randrange(MAX_STEPS)
    delay_s = chance.choice([0.0, 0.0, 0.0, chance.uniform(0, MAX_DELAY_S)])
    task = asyncio.create_task(use(client, grant))
    for _ in range(steps):
        await asyncio.sleep(0)
    if delay_s:
        await asyncio.wait([task], timeout=delay_s)
    task.cancel()
    await asyncio.wait([task], timeout=SOON_S)
    assert task.done(), "a cancelled open hangs"
    if task.cancelled():
        return "cancelled"
    task.result()
    return "used"


def descriptors(manager: Watched) -> tuple[int, int]:
    """How many this process and the manager have."""
    return len(list(Path("/proc/self/fd").iterdir())), manager.descriptors()


async def no_session(client: AsyncClient) -> None:
    """Return when no session is known, which must be so within a second."""
    async with asyncio.timeout(LEFT_WITHIN_S):
        while (await client.status()).sessions:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_POLL_S)


async def assert_descriptors(manager: Watched, before: tuple[int, int]) -> None:
    """Within a second both processes hold no more than before; ZeroMQ closes what the last question took meanwhile."""
    until = time.monotonic() + LEFT_WITHIN_S
    while (now := descriptors(manager))[0] > before[0] or now[1] > before[1]:
        assert time.monotonic() < until, f"descriptors of client and manager: {before} became {now}"
        await asyncio.sleep(_POLL_S)


async def storm(outcomes: Counter[str]) -> None:
    chance = random.Random(SEED)
    async with AsyncClient() as client:
        grant = await client.grant("alice")
        await asyncio.gather(*(use(client, grant) for _ in range(OPENS)))
        await no_session(client)
        with Watched(client.manager_pid) as manager:
            before = descriptors(manager)
            template = (await client.status()).template_pid
            for _ in range(ROUNDS):
                async with asyncio.timeout(3 * SOON_S):
                    opens = (cancelled_somewhere(client, grant, chance) for _ in range(OPENS))
                    *became, _ = await asyncio.gather(*opens, use(client, grant))  # One that nobody cancels.
                    outcomes.update(became)
                await no_session(client)
                await assert_descriptors(manager, before)
            status = await client.status()
            assert status.template_pid == template
            assert psutil.Process(template).children() == [], "a worker is left"
            # A worker that was left in the middle of its request refuses it, if it sees that first.
            assert set(status.ended) <= {"completed", "rejected"}, "every end is the client's own doing"
            assert not status.refused


def test_opens_cancelled_at_random_points_leave_nothing() -> None:
    outcomes: Counter[str] = Counter()
    children = {child.pid for child in psutil.Process(os.getpid()).children()}
    asyncio.run(storm(outcomes))
    assert outcomes.total() == OPENS * ROUNDS
    assert outcomes["cancelled"] > OPENS * ROUNDS // 2, "or else the points say nothing"
    assert {child.pid for child in psutil.Process(os.getpid()).children()} <= children
