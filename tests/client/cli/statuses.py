"""Statuses and managers made up for tests of what is shown."""

from collections.abc import Iterator, Sequence
from typing import Self

from hintcell_manager.protocol import (
    ChangeReport,
    ManagerEvent,
    ManagerOptions,
    Memory,
    Sample,
    SessionStatus,
    Status,
)

MIB = 1024 * 1024


def session(
    session_id: str = "5e55",
    *,
    state: str = "running",
    principal: str = "alice",
    labels: tuple[str, ...] = ("repo:api",),
    snapshot_id: str = "api@1",
    pid: int | None = 4711,
    age_s: float = 10.0,
    memory: Memory | None = None,
    uss_bytes: int | None = 8 * MIB,
    cpu_s: float | None = 0.5,
    history: tuple[Sample, ...] = (),
) -> SessionStatus:
    memory = memory or Memory("measured", 60 * MIB, 70 * MIB)
    return SessionStatus(
        session_id, state, principal, labels, snapshot_id, pid, age_s, memory, uss_bytes, cpu_s, history
    )


def status(
    *sessions: SessionStatus,
    uptime_s: float = 100.0,
    cpu_s: float = 1.0,
    recent_ends: dict[str, int] | None = None,
    options: ManagerOptions | None = None,
) -> Status:
    return Status(
        instance="1",
        pid=99,
        epoch=3,
        uptime_s=uptime_s,
        options=options or ManagerOptions(),
        sessions=sessions,
        memory=Memory("measured", 30 * MIB, 31 * MIB),
        template_pid=100,
        template_memory=Memory("measured", 50 * MIB, 51 * MIB),
        opened=5,
        ended={"completed": 1, "crashed": 2},
        recent_ends=recent_ends or {},
        cpu_s=cpu_s,
    )


class FakeManager:
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(
        self,
        told: Status | None = None,
        *,
        events: Sequence[ManagerEvent | BaseException] = (),
        report: ChangeReport | None = None,
    ) -> None:
        self._told = told or status()
        self._events = events
        self._report = report or ChangeReport(1, (), 0.001)
        self.asked: list[dict[str, object]] = []

    def __call__(self, *_: object, **__: object) -> Self:
        return self

    def status(self, **asked: object) -> Status:
        self.asked.append(asked)
        return self._told

    def events(self) -> Iterator[ManagerEvent]:
        for event in self._events:
            if isinstance(event, BaseException):
                raise event
            yield event

    def permission_changed(self, **asked: object) -> ChangeReport:
        self.asked.append(asked)
        return self._report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
