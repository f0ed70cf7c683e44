"""The agent that uses `Client`: a thread for each command."""

import threading
import time
from collections.abc import Iterable

from hintcell import Client, Session
from tests.faults.storm import agent, catalogs
from tests.faults.storm.messages import (
    AskEnd,
    AskGrant,
    AskStatus,
    Cancel,
    Change,
    Close,
    Command,
    Done,
    EndTold,
    Fork,
    Granted,
    Leave,
    Missing,
    Open,
    Result,
    Start,
    Started,
    Stop,
    Turn,
)


class _Held:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.cursor: str | None = None


class BlockingAgent:
    """Performs commands with a blocking client."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._held: dict[str, _Held] = {}

    def serve(self, commands: Iterable[Command]) -> None:
        """Start a thread for each command, until there are no more."""
        for command in commands:
            if isinstance(command, Leave):
                return
            threading.Thread(target=self._perform, args=[command], daemon=True).start()

    def _perform(self, command: Command) -> None:
        began = time.monotonic()
        try:
            result = self._start(command) if isinstance(command, Start) else self._do(command, self._usable())
        except BaseException as error:  # noqa: BLE001 - whatever comes is what was to be seen
            result = agent.failure(error)
        agent.tell(command.op, began, result)

    def _usable(self) -> Client:
        if self._client is None:
            raise RuntimeError("commanded before Start was answered")
        return self._client

    def _start(self, command: Start) -> Result:
        self._client = Client(command.directory, options=command.options)
        return Started(str(self._client.directory), self._client.manager_pid)

    def _do(self, command: Command, client: Client) -> Result:
        match command:
            case AskGrant():
                return Granted(client.grant(command.principal, command.labels))
            case Open():
                return self._open(command, client)
            case Turn():
                return self._turn(command)
            case Close():
                if (held := self._held.get(command.key)) is None:
                    return Missing()
                held.session.close()
                return Done()
            case Change():
                report = client.permission_changed(
                    principal=command.principal,
                    labels=command.labels,
                    snapshot_id=command.snapshot_id,
                    session_id=command.session_id,
                    everyone=command.everyone,
                )
                survivors = agent.survivors(command)
                return agent.changed(tuple(end.session_id for end in report.ended), report.took_s, survivors)
            case AskStatus():
                return agent.status_seen(client.status())
            case AskEnd():
                end = client.end_of(command.session_id)
                return EndTold(end.reason, end.message)
            case Fork():
                return agent.fork()
            case Stop():
                client.close()
                return Done()
            case Cancel() | Leave() | Start():
                return Missing()

    def _open(self, command: Open, client: Client) -> Result:
        session = client.open(
            command.grant,
            snapshot_id=command.snapshot_id,
            query=command.query,
            documents=catalogs.documents(command.key, command.catalog),
            limit=catalogs.LIMITS[command.catalog],
            identifier_hints=command.identifier_hints,
        )
        self._held[command.key] = _Held(session)
        return agent.opened(session.id, session.pid)

    def _turn(self, command: Turn) -> Result:
        if (held := self._held.get(command.key)) is None:
            return Missing()
        if command.which == "bad":
            held.session.page("bm9uZQ")
        page = held.session.page(held.cursor if command.which == "next" else None)
        held.cursor = page.next_cursor or held.cursor
        return agent.page_seen(page, command.key)
