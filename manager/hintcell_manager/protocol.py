"""What clients and the manager say to each other: the control protocol and the session door.

Control messages are one JSON body each over ZeroMQ (DEALER to ROUTER). At the door, a connection carries one
line from the client and one line back; after `Admitted` it belongs to the session's worker. Both live in the
manager's runtime directory. Loads msgspec and nothing else.
"""

import os
from pathlib import Path
from typing import Final, Literal

import msgspec

from hintcell_worker.protocol import Limits

DOOR_NAME: Final = "door"
CONTROL_NAME: Final = "control"
EVENTS_NAME: Final = "events"
LOCK_NAME: Final = "lock"

# sun_path holds 108 bytes, the last of them NUL (unix(7)).
MAX_SOCKET_PATH_BYTES: Final = 107

MAX_NAME_BYTES: Final = 1_024
MAX_LABELS: Final = 256
# Every grant that may be given fits, whatever its names hold: a character can take six bytes for one in JSON.
MAX_DOOR_LINE_BYTES: Final = 6 * MAX_NAME_BYTES * (MAX_LABELS + 4)

EndReason = Literal[
    "completed",  # the client closed the session, or read to its end and left
    "permission_changed",
    "memory_limit",
    "idle_timeout",
    "lifetime",
    "rejected",  # the worker refused what the client sent; the message says why
    "crashed",  # the worker ended in a way that nobody asked for
    "manager_stopped",
]
"""Why a session ended, in one word."""

RefusalReason = Literal[
    "permission_changed",  # the grant is older than a matching change
    "unknown_grant",  # the grant comes from another manager, or from before its restart
    "cannot_start",  # no worker could be started
    "too_many_sessions",  # of everyone, or of this principal
    "memory_budget",  # the sessions that are open use it up
    "bad_request",
    "manager_stopped",
]
"""Why an open was refused, in one word."""


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="type"):
    """Base of all messages: unknown fields are refused, a tag tells them apart."""


class ManagerOptions(_Message, frozen=True, tag="manager_options"):
    """How a manager runs. None means no limit: nothing expires and nothing is refused unless asked for.

    Attributes:
        idle_timeout_s: end a session whose worker had nothing to do for so long, to within two sample intervals.
        lifetime_s: end a session so long after its worker started.
        ranking_deadline_s: end a session whose worker takes longer to rank; 60 by default.
        max_sessions: opens wait while there are so many.
        max_sessions_per_principal: likewise, of one principal.
        memory_limit_bytes: end a session whose USS exceeds it.
        memory_budget_bytes: opens wait while the USS of all sessions, and 32 MiB for the one to come (or as many
            times more as its limits are raised), exceed it.
        open_wait_s: how long an open waits for room before it is refused; 5 by default.
        sample_interval_s: how often each session's RSS is read, 1 by default; PSS and USS when RSS has moved.
        template_max_forks: replace the template after so many workers, so that no hash seed lives forever; 5,000 by
            default.
        template_max_age_s: replace it at this age, if it has forked since; 3,600 by default.
        launcher: `template`, the default, forks workers from a warm process; `exec` starts each as a fresh interpreter,
            which takes a second and shares no memory layout.
    """

    idle_timeout_s: float | None = None
    lifetime_s: float | None = None
    ranking_deadline_s: float | None = 60.0
    max_sessions: int | None = None
    max_sessions_per_principal: int | None = None
    memory_limit_bytes: int | None = None
    memory_budget_bytes: int | None = None
    open_wait_s: float = 5.0
    sample_interval_s: float = 1.0
    template_max_forks: int | None = 5_000
    template_max_age_s: float | None = 3_600.0
    launcher: Literal["template", "exec"] = "template"


class Grant(_Message, frozen=True, tag="grant"):
    """Proof of when a principal's permissions were asked for; take it before deciding what they may read.

    Attributes:
        principal: who will read, in the caller's own naming.
        labels: what the snapshot depends on (repositories, teams); a change can name any of them.
        instance: the manager that issued it.
        epoch: how many permission changes that manager had seen.
    """

    principal: str
    labels: tuple[str, ...]
    instance: str
    epoch: int


class GrantRequest(_Message, frozen=True, tag="grant_request"):
    """Asks for a grant."""

    principal: str
    labels: tuple[str, ...] = ()


class PermissionChange(_Message, frozen=True, tag="permission_change"):
    """Ends every session, and outdates every grant, that matches all the fields given.

    Attributes:
        principal: sessions of this principal.
        labels: sessions whose grant has at least one of these labels.
        snapshot_id: sessions over this snapshot.
        session_id: this session.
        everyone: all sessions and grants; excludes the others.
    """

    principal: str | None = None
    labels: tuple[str, ...] | None = None
    snapshot_id: str | None = None
    session_id: str | None = None
    everyone: bool = False


class EndedSession(_Message, frozen=True, tag="ended_session"):
    """One session that a permission change ended.

    Attributes:
        session_id: which one.
        pid: its worker's process; None if none had been started.
        died_after_s: seconds from the arrival of the permission change to the observed exit.
    """

    session_id: str
    pid: int | None
    died_after_s: float


class ChangeReport(_Message, frozen=True, tag="change_report"):
    """What a permission change did. Every process that it had to end is dead.

    Attributes:
        epoch: how many permission changes the manager has seen, this one included; older grants that it matched are
            outdated.
        ended: the sessions that it ended.
        took_s: seconds from its arrival to the last observed exit.
    """

    epoch: int
    ended: tuple[EndedSession, ...]
    took_s: float


class StatusRequest(_Message, frozen=True, tag="status_request"):
    """Asks what the manager holds; `full_memory` adds PSS and USS, `history` what was seen of each session."""

    full_memory: bool = False
    history: bool = False


class Memory(_Message, frozen=True, tag="memory"):
    """Memory of one process, in bytes.

    Attributes:
        state: `measured`; `gone` if the process ended; `denied` if the kernel does not let us look.
        rss_bytes: resident set; pages shared with the template count in every worker.
        peak_rss_bytes: the kernel's high-water mark of it (VmHWM).
        pss_bytes: resident pages, each divided by how many share it; None unless full memory was asked for.
        uss_bytes: pages that nobody shares, what the end of the process would free; None likewise.
    """

    state: Literal["measured", "gone", "denied"]
    rss_bytes: int | None = None
    peak_rss_bytes: int | None = None
    pss_bytes: int | None = None
    uss_bytes: int | None = None


class Sample(_Message, frozen=True, tag="sample", array_like=True):
    """One point of a session's history.

    Attributes:
        age_s: seconds since the session's admission.
        rss_bytes: the worker's RSS then.
        uss_bytes: its USS; None where only RSS was read.
    """

    age_s: float
    rss_bytes: int
    uss_bytes: int | None


class SessionStatus(_Message, frozen=True, tag="session_status"):
    """One session that has not ended.

    Attributes:
        session_id: its id.
        state: where it stands: `admitted`, `starting`, `running` or `ending`.
        principal: of its grant.
        labels: of its grant.
        snapshot_id: what it ranks.
        pid: its worker, once it has one.
        age_s: since its admission.
        memory: now.
        uss_bytes: the worker's USS when the sampler last read it.
        cpu_s: processor time that the worker has used; None if it cannot be read.
        history: RSS and USS over its life, oldest first, if asked for.
    """

    session_id: str
    state: str
    principal: str
    labels: tuple[str, ...]
    snapshot_id: str
    pid: int | None
    age_s: float
    memory: Memory
    uss_bytes: int | None = None
    cpu_s: float | None = None
    history: tuple[Sample, ...] = ()


class Status(_Message, frozen=True, tag="status"):
    """What the manager holds now.

    Attributes:
        instance: the manager's name, new at every start.
        pid: its process.
        epoch: how many permission changes it has seen.
        uptime_s: since its start.
        options: how it runs.
        sessions: what has not ended, oldest first.
        memory: the manager's own.
        template_pid: the template that forks, or is loading to; None if there is none.
        template_memory: its memory.
        retired_templates: templates that only wait for their workers to end.
        opened: sessions admitted since the start.
        ended: ends since the start, by reason.
        refused: refused opens since the start, by reason.
        recent_ends: how many ended in the last minute, by reason.
        cpu_s: processor time that the manager has used.
    """

    instance: str
    pid: int
    epoch: int
    uptime_s: float
    options: ManagerOptions
    sessions: tuple[SessionStatus, ...]
    memory: Memory
    template_pid: int | None = None
    template_memory: Memory | None = None
    retired_templates: int = 0
    opened: int = 0
    ended: dict[str, int] = {}
    refused: dict[str, int] = {}
    recent_ends: dict[str, int] = {}
    cpu_s: float = 0.0


class ManagerEvent(_Message, frozen=True, tag="event"):
    """Something that the manager decided or saw, published as it happens. Never a query, a text or a document's id.

    Attributes:
        kind: `opened`, `ended`, `refused`, `permission_changed`, or `template`.
        at: seconds since 1970 (`time.time`), by the manager's clock.
        session_id: whose, if it is one session's.
        principal: likewise.
        reason: of an end or a refusal; what happened to a template.
        pid: of the worker or template.
        count: sessions that a permission change ended.
        took_s: how long it took until they were dead; or how long an ended session had lived.
        peak_rss_bytes: of an ended session's worker.
    """

    kind: Literal["opened", "ended", "refused", "permission_changed", "template"]
    at: float
    session_id: str | None = None
    principal: str | None = None
    reason: str | None = None
    pid: int | None = None
    count: int | None = None
    took_s: float | None = None
    peak_rss_bytes: int | None = None


class EndRequest(_Message, frozen=True, tag="end_request"):
    """Asks how a session ended; answered when it has, or after a moment if it lives."""

    session_id: str


class CloseRequest(_Message, frozen=True, tag="close_request"):
    """Ends one session for its client, who has given it up; answered like `EndRequest` when it is dead."""

    session_id: str


class End(_Message, frozen=True, tag="end"):
    """How a session ended.

    Attributes:
        session_id: which one.
        reason: why.
        message: the worker's own words if it refused its input, else what is known beyond the reason.
        exit_status: the worker's exit status, or minus the number of the signal that ended it; None if no worker
            ran or its parent died first.
        stderr_tail: the last of what the worker wrote to standard error, if it crashed.
        peak_rss_bytes: the kernel's count at its end.
    """

    session_id: str
    reason: EndReason
    message: str = ""
    exit_status: int | None = None
    stderr_tail: str = ""
    peak_rss_bytes: int | None = None


class Failure(_Message, frozen=True, tag="failure"):
    """The manager did not do what was asked; `message` says why and what to do."""

    message: str


class OpenRequest(_Message, frozen=True, tag="open"):
    """At the door: start a session on this connection.

    Attributes:
        grant: what it is opened under.
        snapshot_id: what it is over.
        limit: candidates in its first page.
        identifier_hints: whether to interleave the ranking of split identifiers.
        limits: what its request may hold.
        client: from `Attached`; the session ends when that client hangs up. None for a session that stands alone.
    """

    grant: Grant
    snapshot_id: str
    limit: int
    identifier_hints: bool = False
    limits: Limits = Limits()
    client: str | None = None


class Attach(_Message, frozen=True, tag="attach"):
    """At the door: stay connected, so that each side sees at once when the other is gone."""


class Attached(_Message, frozen=True, tag="attached"):
    """The manager is ready.

    Attributes:
        instance: the manager's name, new at every start.
        pid: its process.
        directory: where its sockets are.
        client: the name of who has attached, for `OpenRequest`.
    """

    instance: str
    pid: int
    directory: str
    client: str


class Admitted(_Message, frozen=True, tag="admitted"):
    """The connection is now the worker's standard input and output."""

    session_id: str
    pid: int


class Refused(_Message, frozen=True, tag="refused"):
    """No session was started, and nothing that was sent is kept."""

    reason: RefusalReason
    message: str


ControlRequest = GrantRequest | PermissionChange | StatusRequest | EndRequest | CloseRequest
ControlReply = Grant | ChangeReport | Status | End | Failure
DoorRequest = OpenRequest | Attach
DoorReply = Admitted | Refused | Attached

events: Final[msgspec.json.Decoder[ManagerEvent]] = msgspec.json.Decoder(ManagerEvent)
control_requests: Final[msgspec.json.Decoder[ControlRequest]] = msgspec.json.Decoder(ControlRequest)
control_replies: Final[msgspec.json.Decoder[ControlReply]] = msgspec.json.Decoder(ControlReply)
door_requests: Final[msgspec.json.Decoder[DoorRequest]] = msgspec.json.Decoder(DoorRequest)
door_replies: Final[msgspec.json.Decoder[DoorReply]] = msgspec.json.Decoder(DoorReply)


def default_directory() -> Path:
    """The runtime directory of this user's shared manager: below XDG_RUNTIME_DIR, or else /tmp."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(base) / "hintcell" if base else Path("/tmp") / f"hintcell-{os.geteuid()}"  # noqa: S108


def encode(message: ControlRequest | ControlReply) -> bytes:
    """The body of a control message."""
    return msgspec.json.encode(message)


def encode_line(message: DoorRequest | DoorReply) -> bytes:
    """The line of a door message, its end included."""
    return msgspec.json.encode(message) + b"\n"
