"""What an edit of a policy ends: permission changes for exactly the principals whose rules it changed.

Each time, the policy is read first and sessions are ended after: a search takes its grant first and reads the policy
after. So a search that decided by the text before holds a grant from before the permission change, and is ended or
refused; a search with a later grant reads the text that was compared here, or a newer one.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Final, Literal, Protocol

from msgspec import Struct

from hintcell.errors import ControlFailed, DeadlineExceeded
from hintcell.policy.model import Policy, PolicyError
from hintcell.policy.sources import PolicySource
from hintcell_manager.protocol import ChangeReport

LABEL: Final = "hintcell:policy"
"""On every grant that is taken under a policy. Sessions without it are none of the policy's business."""

Kind = Literal["started", "changed", "unreadable", "readable"]


class Watched(Struct, frozen=True, omit_defaults=True):
    """One thing that `watch` did.

    Attributes:
        kind: `started` and `readable` end everyone under the policy, as edits may have been missed before; `changed`
            ends `principals`; `unreadable` ends everyone, because nobody knows what may be read.
        principals: whose rules changed, in order; empty if everyone under the policy was meant.
        ended: how many sessions were ended.
        took_s: what the permission changes took, each until every process was dead.
        message: why the policy cannot be read.
    """

    kind: Kind
    ended: int
    took_s: float
    principals: tuple[str, ...] = ()
    message: str = ""


class Revoking(Protocol):
    """The one thing that is asked of a `Client`."""

    def permission_changed(self, *, principal: str | None = None, labels: list[str] | None = None) -> ChangeReport:
        """End every session that matches all that is given, and outdate every such grant."""
        ...


def watch(source: PolicySource, client: Revoking, stop: threading.Event, *, tell: Callable[[Watched], None]) -> None:
    """End sessions as the policy changes, until `stop` is set.

    At the start everyone under the policy is ended, since edits that were made while nobody watched are not known.

    Args:
        source: the policy.
        client: a `Client` of the manager whose sessions are meant, or a `RemoteManager` with the role `revoke`.
        stop: ends the watching; it is looked at several times a second.
        tell: called with each thing that was done, once it is done.

    Raises:
        ManagerUnavailable: the manager is gone, and its sessions with it.
        ControlFailed, DeadlineExceeded: a session may not have ended. All others that were meant have been ended.
    """
    policy, message = _read(source)
    tell(_end_everyone(client, "started" if policy else "unreadable", message))
    with _closing(source.changes(stop)) as changes:
        for _ in changes:
            before, said = policy, message
            policy, message = _read(source)
            if policy is None:
                if before is not None or message != said:
                    tell(_end_everyone(client, "unreadable", message))
            elif before is None:
                # Between the two, other texts may have been valid for a moment; who read one of them is ended too.
                tell(_end_everyone(client, "readable"))
            elif principals := sorted(before.changed(policy)):
                tell(_end(client, principals))


def _read(source: PolicySource) -> tuple[Policy | None, str]:
    try:
        return source.read(), ""
    except PolicyError as error:
        return None, str(error)


def _end_everyone(client: Revoking, kind: Kind, message: str = "") -> Watched:
    report = client.permission_changed(labels=[LABEL])
    return Watched(kind, len(report.ended), report.took_s, message=message)


def _end(client: Revoking, principals: list[str]) -> Watched:
    """End each of the principals' sessions under the policy; one that fails keeps no other from being ended."""
    ended, took_s = 0, 0.0
    failed: ControlFailed | DeadlineExceeded | None = None
    for principal in principals:
        try:
            report = client.permission_changed(principal=principal, labels=[LABEL])
        except (ControlFailed, DeadlineExceeded) as error:
            failed = failed or error
        else:
            ended += len(report.ended)
            took_s += report.took_s
    if failed is not None:
        raise failed
    return Watched("changed", ended, took_s, tuple(principals))


@contextlib.contextmanager
def _closing(changes: Iterator[None]) -> Generator[Iterator[None]]:
    """Give back at once what a generator holds of the system, whatever ends the watching."""
    try:
        yield changes
    finally:
        if isinstance(changes, Generator):
            changes.close()
