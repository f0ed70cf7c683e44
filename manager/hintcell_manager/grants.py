"""Grants and permission changes: what still counts, without processes, sockets or clocks.

Time is counted in epochs, one for each permission change. A grant records the epoch in which it was asked for;
it is refused once a change of a later epoch matches it, and so is every grant of another manager. Memory for
changes is bounded: the oldest are folded into one floor, below which every grant is refused. Folding refuses
more, never less.
"""

import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from hintcell_manager.protocol import (
    MAX_LABELS,
    MAX_NAME_BYTES,
    Grant,
    GrantRequest,
    PermissionChange,
)

# A hundred changes a minute are remembered for over half an hour, in about a megabyte.
MAX_REMEMBERED_CHANGES: Final = 4_096


class InvalidRequestError(Exception):
    """The caller asked for something that has no meaning; the message says what to do."""


class Subject(msgspec.Struct, frozen=True):
    """What a change is held against: a session, or a grant about to become one (`session_id` None)."""

    principal: str
    labels: tuple[str, ...]
    snapshot_id: str
    session_id: str | None = None


def check_change(change: PermissionChange) -> None:
    """Raise InvalidRequestError unless the change names somebody, in names that a grant could hold."""
    names = (change.principal, change.snapshot_id, change.session_id, *(change.labels or ()))
    if change.everyone:
        if change.labels is not None or any(name is not None for name in names):
            raise InvalidRequestError("everyone=True excludes principal, labels, snapshot_id and session_id")
    elif change.labels is None and all(name is None for name in names):
        raise InvalidRequestError(
            "a permission change must name principal, labels, snapshot_id or session_id, or everyone=True"
        )
    elif change.labels is not None and not change.labels:
        raise InvalidRequestError("labels is empty and would match nobody: leave it out or name at least one")
    elif any(name is not None and not name.strip() for name in names):
        raise InvalidRequestError("a permission change names a blank, which matches nobody: give it a value")
    _check_lengths(change.labels or (), [name for name in names if name is not None])


def _check_lengths(labels: Sequence[str], names: Sequence[str]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidRequestError(f"there are {len(labels)} labels: at most {MAX_LABELS} are allowed")
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        raise InvalidRequestError(f"a name has over {MAX_NAME_BYTES} bytes: use a shorter one")


def matches(change: PermissionChange, subject: Subject) -> bool:
    """Whether all that the change gives holds for the subject; of the labels, one in common is enough."""
    return change.everyone or (
        (change.principal is None or change.principal == subject.principal)
        and (change.labels is None or not set(change.labels).isdisjoint(subject.labels))
        and (change.snapshot_id is None or change.snapshot_id == subject.snapshot_id)
        and (change.session_id is None or change.session_id == subject.session_id)
    )


class Grants:
    """Issues grants and knows which are outdated."""

    def __init__(self, *, max_changes: int = MAX_REMEMBERED_CHANGES) -> None:
        self.instance = secrets.token_hex(16)
        self.epoch = 0
        self._floor = 0
        self._max_changes = max_changes
        # The epoch of the last change of each kind, oldest first.
        self._changes: dict[PermissionChange, int] = {}

    def grant(self, request: GrantRequest) -> Grant:
        """A grant as of now.

        Raises:
            InvalidRequestError: a name is blank or too long, or there are too many labels.
        """
        if not request.principal.strip():
            raise InvalidRequestError("principal is blank: name who will read")
        _check_lengths(request.labels, (request.principal, *request.labels))
        return Grant(request.principal, request.labels, self.instance, self.epoch)

    def record(self, change: PermissionChange) -> int:
        """Outdate every grant that the change matches, and return the epoch that it starts."""
        self.epoch += 1
        if change.session_id is None:  # A session named by its id has its grant behind it: no later open can match.
            self._changes.pop(change, None)
            self._changes[change] = self.epoch
            while len(self._changes) > self._max_changes:
                self._floor = self._changes.pop(next(iter(self._changes)))
        return self.epoch

    def is_ours(self, grant: Grant) -> bool:
        """Whether this manager issued the grant, since it started."""
        return grant.instance == self.instance and 0 <= grant.epoch <= self.epoch

    def is_outdated(self, grant: Grant, snapshot_id: str) -> bool:
        """Whether a change since the grant matches a session that it would open over this snapshot."""
        if grant.epoch < self._floor:
            return True
        subject = Subject(grant.principal, grant.labels, snapshot_id)
        for change, epoch in reversed(self._changes.items()):
            if epoch <= grant.epoch:
                return False
            if matches(change, subject):
                return True
        return False
