"""Prometheus metrics over HTTP, for who asked for them. Never a principal, a snapshot or a session by name.

Runs prometheus_client's server in a thread of its own; each scrape asks the event loop for the figures.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, get_args
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hintcell_manager.protocol import EndReason, RefusalReason, Status
from hintcell_manager.sessions import State

# The loop answers in milliseconds; a scrape that waits longer is better told nothing.
SCRAPE_DEADLINE_S: Final = 5.0

# Every series is there from the start, as one that appears with its first event has no increase that could be told
# (Prometheus, "Instrumentation", avoid missing metrics).
_NO_SESSIONS: Final = {state.value: 0 for state in State if state is not State.ENDED}
_NO_ENDS: Final[dict[str, int]] = dict.fromkeys(get_args(EndReason), 0)
_NO_REFUSALS: Final[dict[str, int]] = dict.fromkeys(get_args(RefusalReason), 0)


class Metrics(Collector):
    """Serves the figures of one manager until `close`."""

    def __init__(self, address: str, status: Callable[[], Status]) -> None:
        """Listen at `address` (`HOST:PORT`).

        Raises:
            OSError: it cannot listen there.
            ValueError: the address has another form.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"{address} is not HOST:PORT")
        self._status = status
        self._loop = asyncio.get_running_loop()
        registry = CollectorRegistry()
        registry.register(self)
        served: tuple[WSGIServer, threading.Thread] = start_http_server(int(port), host, registry)
        self._server, self._thread = served
        self.port: Final = int(self._server.server_port)

    def close(self) -> None:
        """Stop serving. A scrape under way is cut off at its deadline."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(SCRAPE_DEADLINE_S)

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: prometheus_client would otherwise collect at registration, before the loop serves."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The figures now; called in the server's thread."""
        status = asyncio.run_coroutine_threadsafe(self._ask(), self._loop).result(SCRAPE_DEADLINE_S)
        yield from _families(status)

    async def _ask(self) -> Status:
        return self._status()


def _families(status: Status) -> Iterator[Metric]:
    states = GaugeMetricFamily("hintcell_sessions", "Sessions that have not ended.", labels=["state"])
    by_state = Counter(session.state for session in status.sessions)
    for state, number in {**_NO_SESSIONS, **by_state}.items():
        states.add_metric([state], number)
    yield states
    yield CounterMetricFamily("hintcell_sessions_opened", "Sessions admitted since the start.", value=status.opened)
    ended = CounterMetricFamily("hintcell_sessions_ended", "Sessions ended since the start.", labels=["reason"])
    for reason, number in {**_NO_ENDS, **status.ended}.items():
        ended.add_metric([reason], number)
    yield ended
    refused = CounterMetricFamily("hintcell_opens_refused", "Opens refused since the start.", labels=["reason"])
    for reason, number in {**_NO_REFUSALS, **status.refused}.items():
        refused.add_metric([reason], number)
    yield refused
    yield CounterMetricFamily("hintcell_permission_changes", "Permission changes since the start.", value=status.epoch)
    rss = sum(session.memory.rss_bytes or 0 for session in status.sessions)
    uss = sum(session.uss_bytes or 0 for session in status.sessions)
    yield GaugeMetricFamily("hintcell_sessions_rss_bytes", "RSS of all workers; shared pages count in each.", value=rss)
    yield GaugeMetricFamily("hintcell_sessions_uss_bytes", "USS of all workers, as last sampled.", value=uss)
    yield GaugeMetricFamily("hintcell_manager_rss_bytes", "RSS of the manager.", value=status.memory.rss_bytes or 0)
    yield CounterMetricFamily("hintcell_manager_cpu_seconds", "Processor time of the manager.", value=status.cpu_s)
    template = status.template_memory
    yield GaugeMetricFamily(
        "hintcell_template_rss_bytes", "RSS of the template.", value=(template.rss_bytes or 0) if template else 0
    )
    yield GaugeMetricFamily("hintcell_uptime_seconds", "Since the manager's start.", value=status.uptime_s)
