"""What the template and whoever started it say to each other.

Each message is one JSON packet on a SOCK_SEQPACKET unix socket. `Fork` carries two descriptors (the session's
connection, then the write end of a pipe for the worker's standard error), `Forked` carries one (a pidfd of the
worker, where the kernel has them). Loads msgspec and nothing else.
"""

from typing import Final

import msgspec

from hintcell_worker.protocol import Limits

# The worker's exit statuses: the input was answered to its end, or its reader left; our own failure; the caller's
# input was refused. Standard error says why for FAILED and REFUSED.
EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_REFUSED: Final = 2

# Far above any message, and below the kernel's smallest socket buffer.
MAX_PACKET_BYTES: Final = 64 * 1024


class Fork(msgspec.Struct, frozen=True, tag="fork", forbid_unknown_fields=True):
    """Start a worker on the two descriptors sent along.

    Attributes:
        token: the caller's name for this worker, never used twice.
        limit: candidates in the first page; 0 for all of them, outside a session.
        identifier_hints: whether to interleave the ranking of split identifiers.
        limits: what the worker's request may hold.
        session: whether the worker stays open for continuations.
        cursor: where a single request's page starts.
        ranking_deadline_s: die of SIGALRM when ranking takes longer; None to take any time.
    """

    token: int
    limit: int
    identifier_hints: bool
    limits: Limits = Limits()
    session: bool = True
    cursor: str = ""
    ranking_deadline_s: float | None = None


class Kill(msgspec.Struct, frozen=True, tag="kill", forbid_unknown_fields=True):
    """Send SIGKILL to a worker; for callers that hold no pidfd of it."""

    token: int


class Ready(msgspec.Struct, frozen=True, tag="ready", forbid_unknown_fields=True):
    """Everything is loaded and frozen; the template takes requests from now on."""


class Forked(msgspec.Struct, frozen=True, tag="forked", forbid_unknown_fields=True):
    """The worker runs, with this pid."""

    token: int
    pid: int


class ForkFailed(msgspec.Struct, frozen=True, tag="fork_failed", forbid_unknown_fields=True):
    """No worker was started; `message` says why."""

    token: int
    message: str


class Exited(msgspec.Struct, frozen=True, tag="exited", forbid_unknown_fields=True):
    """The worker is dead and reaped.

    Attributes:
        token: as in `Fork`.
        status: the exit status, or minus the signal's number.
        peak_rss_bytes: the kernel's ru_maxrss, shared pages included.
    """

    token: int
    status: int
    peak_rss_bytes: int


ToTemplate = Fork | Kill
FromTemplate = Ready | Forked | ForkFailed | Exited

to_template: Final[msgspec.json.Decoder[ToTemplate]] = msgspec.json.Decoder(ToTemplate)
from_template: Final[msgspec.json.Decoder[FromTemplate]] = msgspec.json.Decoder(FromTemplate)
