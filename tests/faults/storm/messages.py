"""What a round and its agents say to each other: one JSON line for each command and each outcome.

Every command is answered once. `began` and `ended` are CLOCK_MONOTONIC, which all processes share.
"""

from typing import Final, Literal

import msgspec

from hintcell import Grant, ManagerOptions

Catalog = Literal["small", "large", "wide"]
Which = Literal["first", "next", "bad"]


class Process(msgspec.Struct, frozen=True):
    """A process for good: its pid, and the tick since boot at which it started, which a recycled pid does not have."""

    pid: int
    started: int


class _Command(msgspec.Struct, frozen=True, tag=True):
    op: int


class Start(_Command, frozen=True):
    """Make the client: of the manager in a directory, or of a private one."""

    directory: str | None
    options: ManagerOptions | None


class AskGrant(_Command, frozen=True):
    """Ask for a grant."""

    principal: str
    labels: tuple[str, ...]


class Open(_Command, frozen=True):
    """Open a session, known as `key` from then on."""

    key: str
    grant: Grant
    snapshot_id: str
    query: str
    catalog: Catalog
    identifier_hints: bool


class Turn(_Command, frozen=True):
    """Read one page of a session; `bad` asks for one that cannot be."""

    key: str
    which: Which


class Close(_Command, frozen=True):
    """Close a session."""

    key: str


class Change(_Command, frozen=True):
    """Announce a permission change, and look at once which of `watched` still live when it has returned."""

    principal: str | None
    labels: tuple[str, ...] | None
    snapshot_id: str | None
    session_id: str | None
    everyone: bool
    watched: tuple[Process, ...]


class Cancel(_Command, frozen=True):
    """Cancel the task that performs another command (asyncio only)."""

    target: int


class AskStatus(_Command, frozen=True):
    """Ask the manager what it holds."""


class AskEnd(_Command, frozen=True):
    """Ask the manager how a session ended."""

    session_id: str


class Fork(_Command, frozen=True):
    """Fork a child that does nothing, and lives on whatever becomes of its parent."""


class Stop(_Command, frozen=True):
    """Close the client."""


class Leave(_Command, frozen=True):
    """Exit as an ordinary program does, whatever is open."""


class Granted(msgspec.Struct, frozen=True, tag=True):
    """Answers AskGrant."""

    grant: Grant


class Started(msgspec.Struct, frozen=True, tag=True):
    """Answers Start."""

    directory: str
    manager_pid: int


class Opened(msgspec.Struct, frozen=True, tag=True):
    """Answers Open; `worker` and `parent_pid` are None if the worker was dead already."""

    session_id: str
    pid: int
    worker: Process | None
    parent_pid: int | None


class PageSeen(msgspec.Struct, frozen=True, tag=True):
    """A page was delivered; `foreign` of its candidates are no documents of this session."""

    offset: int
    returned: int
    total: int
    foreign: int


class Changed(msgspec.Struct, frozen=True, tag=True):
    """Answers Change; `survivors` lived when it returned."""

    ended: tuple[str, ...]
    took_s: float
    survivors: tuple[Process, ...]


class StatusSeen(msgspec.Struct, frozen=True, tag=True):
    """Answers AskStatus."""

    sessions: tuple[str, ...]
    template_pid: int | None
    retired_templates: int


class EndTold(msgspec.Struct, frozen=True, tag=True):
    """Answers AskEnd."""

    reason: str
    message: str


class Forked(msgspec.Struct, frozen=True, tag=True):
    """Answers Fork."""

    pid: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """It was done, and there is nothing to tell."""


class Missing(msgspec.Struct, frozen=True, tag=True):
    """The agent has no such session or task (any more, or yet)."""


class Cancelled(msgspec.Struct, frozen=True, tag=True):
    """It was cancelled, as commanded."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """OpenRefused was raised."""

    reason: str
    message: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """SessionEnded was raised."""

    reason: str
    message: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Another error of hintcell's family was raised."""

    error: str
    message: str


class Foreign(msgspec.Struct, frozen=True, tag=True):
    """Something was raised that callers are not told to expect."""

    error: str
    message: str


Command = Start | AskGrant | Open | Turn | Close | Change | Cancel | AskStatus | AskEnd | Fork | Stop | Leave
Result = (
    Granted
    | Started
    | Opened
    | PageSeen
    | Changed
    | StatusSeen
    | EndTold
    | Forked
    | Done
    | Missing
    | Cancelled
    | Refused
    | Ended
    | Failed
    | Foreign
)


class Outcome(msgspec.Struct, frozen=True):
    """What came of a command."""

    op: int
    began: float
    ended: float
    result: Result


commands: Final[msgspec.json.Decoder[Command]] = msgspec.json.Decoder(Command)
outcomes: Final[msgspec.json.Decoder[Outcome]] = msgspec.json.Decoder(Outcome)


def encode_line(message: Command | Outcome) -> bytes:
    """The message as one line."""
    return msgspec.json.encode(message) + b"\n"
