"""The manager's hold on its templates and workers: whatever is killed, every process is seen dead and reaped."""

import asyncio
import os
import signal

from hintcell_manager.protocol import ManagerOptions
from hintcell_worker.template_protocol import Exited
from tests.manager.hold import Hold, has_children, soon
from tests.manager.own_process import in_a_process_of_its_own
from tests.manager.places import PATIENCE_S, own_descriptors


@in_a_process_of_its_own
async def test_workers_are_forked_and_killed_and_their_ends_seen_and_the_rest_reaped_at_the_end() -> None:
    descriptors = own_descriptors()
    hold = Hold()
    await soon(hold.ready)
    assert os.getsid(hold.template()) == hold.template(), "a terminal's Ctrl-C is not for the template"

    worker = await hold.worker(1)
    await worker.ask_one_page()
    worker.connection.close()
    await asyncio.wait_for(worker.died.wait(), PATIENCE_S)
    exited, _ = await hold.hear(Exited)
    assert (exited.token, exited.status) == (1, 0)
    assert exited.peak_rss_bytes > 16 * 1024 * 1024
    worker.process.kill()  # It is dead, and whoever got its pid is left alone.
    worker.close()

    refusing = await hold.worker(2, limit=0)
    assert (await hold.hear(Exited))[0].status == 2
    assert refusing.process.last_words() == "hintcell-worker: --session needs --limit: use 1 to 4096\n"
    refusing.close()

    for token, with_pidfd in ((3, True), (4, False)):
        killed = await hold.worker(token, with_pidfd=with_pidfd)
        killed.process.kill()
        killed.process.kill()
        exited, _ = await hold.hear(Exited)
        assert (exited.token, exited.status) == (token, -signal.SIGKILL)
        assert await hold.loop.sock_recv(killed.connection, 1) == b""
        killed.close()

    left = [await hold.worker(5), await hold.worker(6, with_pidfd=False)]
    for worker in left:
        await worker.ask_one_page()
    await hold.fleet.stop()
    workers, reaped = hold.burials.get_nowait()
    assert workers == {5: left[0].pid, 6: left[1].pid}
    for worker in left:
        status, peak = reaped[worker.pid]
        assert status == -signal.SIGKILL
        assert peak > 1024 * 1024
        worker.close()
    assert not has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_when_the_template_is_killed_its_workers_are_reaped_and_another_takes_its_place() -> None:
    descriptors = own_descriptors()
    hold = Hold()
    await soon(hold.ready)
    template = hold.template()
    workers = [await hold.worker(token) for token in range(3)]
    for worker in workers:
        await worker.ask_one_page()
    os.kill(workers[2].pid, signal.SIGSTOP)  # A stopped process dies as well.
    os.kill(template, signal.SIGKILL)
    told, reaped = await soon(hold.burials)
    assert told == {token: worker.pid for token, worker in enumerate(workers)}
    for worker in workers:
        status, peak = reaped[worker.pid]
        assert status == -signal.SIGKILL
        assert peak > 1024 * 1024
        await asyncio.wait_for(worker.died.wait(), PATIENCE_S)
        worker.process.kill()
        worker.close()
    await soon(hold.ready)
    assert hold.template() != template
    again = await hold.worker(9)
    await again.ask_one_page()
    again.close()
    await hold.fleet.stop()
    assert not has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_template_that_has_forked_enough_is_retired_and_stays_until_its_last_worker_ends() -> None:
    hold = Hold(ManagerOptions(template_max_forks=1))
    await soon(hold.ready)
    first = hold.template()
    worker = await hold.worker(1)
    hold.fleet.look_at_age()
    assert hold.template() == first, "until its successor is ready, it goes on forking"
    await soon(hold.ready)
    assert hold.template() != first
    assert hold.fleet.retired_pids == [first]
    await worker.ask_one_page()
    worker.connection.close()
    await hold.hear(Exited)
    await soon(hold.burials)
    assert hold.fleet.retired_pids == []
    worker.close()
    await hold.fleet.stop()
    assert not has_children()


@in_a_process_of_its_own
async def test_a_burial_leaves_the_workers_of_other_templates_alone() -> None:
    hold = Hold(ManagerOptions(template_max_forks=1))
    await soon(hold.ready)
    old = await hold.worker(1)
    hold.fleet.look_at_age()
    await soon(hold.ready)
    young = await hold.worker(2)
    await young.ask_one_page()
    os.kill(hold.template(), signal.SIGKILL)
    told, reaped = await soon(hold.burials)
    assert told == {2: young.pid}
    assert reaped[young.pid][0] == -signal.SIGKILL
    await old.ask_one_page()
    old.close()
    young.close()
    await hold.fleet.stop()
    assert not has_children()


@in_a_process_of_its_own
async def test_a_fresh_interpreter_for_each_worker_answers_and_dies_like_a_forked_one() -> None:
    descriptors = own_descriptors()
    hold = Hold(ManagerOptions(launcher="exec"))
    await soon(hold.ready)
    assert hold.fleet.template_pid is None
    worker = await hold.worker(1)
    await worker.ask_one_page()
    worker.process.kill()
    exited, _ = await hold.hear(Exited)
    assert (exited.token, exited.status) == (1, -signal.SIGKILL)
    worker.close()
    left = await hold.worker(2)
    await left.ask_one_page()
    await hold.fleet.stop()
    left.close()
    assert not has_children()
    assert own_descriptors() == descriptors


@in_a_process_of_its_own
async def test_a_fresh_interpreter_that_a_burial_has_reaped_is_not_waited_for_again() -> None:
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: errors.append(context))
    hold = Hold(ManagerOptions(launcher="exec"))
    await soon(hold.ready)
    worker = await hold.worker(1)
    os.kill(worker.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - the loop must not see it first
    await hold.fleet.stop()  # The burial has its turn before the pidfd's reader has.
    await asyncio.sleep(0)
    worker.close()
    assert errors == [], errors
