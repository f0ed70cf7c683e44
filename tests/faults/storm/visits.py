"""Raw visitors (see `raw`) as the round holds them: made, listened to, and closed."""

import contextlib
import socket
import time
from typing import Final

from hintcell_manager.protocol import DOOR_NAME, Admitted, Refused
from tests.faults.storm import choices, figures, raw
from tests.faults.storm.ledger import SessionRecord
from tests.faults.storm.messages import Catalog, Opened
from tests.faults.storm.processes import look
from tests.faults.storm.stage import Stage

# A manager's visitors cost it a descriptor each.
_MAX_VISITS: Final = 30


class Visits:
    """The connections that a round holds itself."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._held: dict[int, raw.Knock | raw.Search] = {}
        self._deaf: set[int] = set()
        self._crowd: list[socket.socket] = []

    def make_noise(self, stage: Stage) -> str | None:
        """Knock with something that is no open."""
        connection = self._connect()
        if connection is None:
            return None
        noise = stage.rng.choice(raw.NOISES)
        self._hold(raw.Knock(connection, noise, choices.told(stage).grant))
        return f"knock with {noise}"

    def search(self, stage: Stage) -> str | None:
        """Open a session, and have bad manners."""
        connection = self._connect()
        if connection is None:
            return None
        manners = stage.rng.choice(raw.MANNERS)
        key = f"k{stage.number()}"
        told, snapshot_id = choices.told(stage), stage.rng.choice(choices.SNAPSHOTS)
        catalog: Catalog = "wide" if manners == "never_reads" else "small"
        session = SessionRecord(key, "raw", told, snapshot_id, catalog, "", time.monotonic())
        session.began = session.asked
        stage.ledger.sessions[key] = session
        self._hold(raw.Search(connection, manners, session))
        return f"{key}: a client that {manners}"

    def crowd(self, number: int) -> None:
        """So many more connections, which say nothing."""
        for _ in range(number):
            connection = raw.connect(self._stage.directory / DOOR_NAME)
            if connection is not None:
                self._crowd.append(connection)

    def disperse(self) -> None:
        """Close the crowd's connections."""
        while self._crowd:
            self._crowd.pop().close()

    def close(self) -> None:
        """Close every connection."""
        for descriptor in list(self._held):
            self._drop(descriptor, left=True)

    def _connect(self) -> socket.socket | None:
        if len(self._held) >= _MAX_VISITS or not self._stage.ledger.grants:
            return None
        return raw.connect(self._stage.directory / DOOR_NAME)

    def _hold(self, visit: raw.Knock | raw.Search) -> None:
        descriptor = visit.connection.fileno()
        self._held[descriptor] = visit
        self._stage.loop.on_readable(descriptor, lambda: self._listen(descriptor))

    def _drop(self, descriptor: int, *, left: bool) -> None:
        visit = self._held.pop(descriptor)
        if descriptor in self._deaf:
            self._deaf.remove(descriptor)
        else:
            self._stage.loop.forget(descriptor)
        if left and isinstance(visit, raw.Search):
            visit.leave()
        with contextlib.suppress(OSError):
            visit.connection.shutdown(socket.SHUT_RDWR)  # Also wakes a thread that is saying something.
        visit.connection.close()

    def _listen(self, descriptor: int) -> None:
        visit, stage = self._held[descriptor], self._stage
        if isinstance(visit, raw.Search) and visit.session.ended_open is not None and not visit.reads:
            self._deaf.add(descriptor)
            stage.loop.forget(descriptor)
            return
        data = raw.receive(visit.connection)
        if data is None:
            self._drop(descriptor, left=False)
        elif isinstance(visit, raw.Knock):
            if (what := visit.objection(data)) is not None:
                stage.violate(figures.ERRORS, what)
        else:
            self._answered(visit, data)

    def _answered(self, search: raw.Search, data: bytes) -> None:
        stage, session = self._stage, search.session
        reply = search.take(data)
        now = time.monotonic()
        if isinstance(reply, Refused):
            stage.observer.refused(session, reply.reason, now)
        elif isinstance(reply, Admitted):
            seen = look(reply.pid)
            worker, parent_pid = (seen.process, seen.parent) if seen else (None, None)
            stage.observer.opened(session, Opened(reply.session_id, reply.pid, worker, parent_pid), session.asked, now)
