"""What the manager costs and how fast it revokes: `python -m bench.manager`, about half a minute.

Prints the time of one permission change that ends 300 sessions, the spread of changes that end one, and the
processor time of the manager with 200 idle sessions, as a share of one core.
"""

import argparse
import contextlib
import resource
import statistics
import time

import psutil

from hintcell import Client, Document, Session

_DOCUMENTS = [Document(f"d{number}", f"read the config of part {number}") for number in range(64)]


def open_sessions(client: Client, number: int, principal: str) -> list[Session]:
    """So many sessions of one principal, each with its first page read."""
    grant = client.grant(principal)
    sessions: list[Session] = []
    for _ in range(number):
        session = client.open(grant, snapshot_id="s", query="read config", documents=_DOCUMENTS, limit=20)
        session.page()
        sessions.append(session)
    return sessions


def is_running(pid: int) -> bool:
    """Whether the process exists and has not exited."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.manager", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch the idle manager")
    seconds: float = parser.parse_args().seconds
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
    with Client() as client:
        open_sessions(client, 1, "warm")
        began = time.perf_counter()
        many = open_sessions(client, 300, "many")
        opening_s = time.perf_counter() - began
        began = time.perf_counter()
        report = client.permission_changed(principal="many")
        change_s = time.perf_counter() - began
        alive = sum(is_running(session.pid) for session in many)
        print(f"300 sessions opened, first page read: {opening_s:.2f} s ({300 / opening_s:.0f} a second)")
        print(
            f"one change for all {len(report.ended)}: {change_s * 1000:.0f} ms until it returned, last death seen "
            f"after {max(ended.died_after_s for ended in report.ended) * 1000:.0f} ms, {alive} alive"
        )
        for session in many:
            session.close()
        times = []
        for number in range(100):
            [session] = open_sessions(client, 1, f"p{number}")
            began = time.perf_counter()
            client.permission_changed(principal=f"p{number}")
            times.append(time.perf_counter() - began)
            session.close()
        times.sort()
        print(
            f"a change for one session: median {statistics.median(times) * 1000:.1f} ms, p99 {times[98] * 1000:.1f} ms"
        )
        idle = open_sessions(client, 200, "idle")
        before = client.status()
        time.sleep(seconds)
        after = client.status()
        share = (after.cpu_s - before.cpu_s) / (after.uptime_s - before.uptime_s)
        print(f"manager with {len(idle)} idle sessions: {share:.1%} of one core over {seconds:g} s")


if __name__ == "__main__":
    main()
