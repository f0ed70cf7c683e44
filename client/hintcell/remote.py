"""A manager on another host, or another user's: look at it, and announce permission changes to it.

Sessions cannot be opened from here: their connections and their workers stay on the manager's host.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import zmq.auth

from hintcell.control import Control, CurveKeys, Manager, permission_change
from hintcell.errors import HintcellError
from hintcell_manager.protocol import ChangeReport, End, EndRequest, Status, StatusRequest


class RemoteManager:
    """Control of a manager that was started with `--control tcp://… --keys DIR`. Thread-safe."""

    def __init__(self, endpoint: str, *, key_file: Path, manager_key_file: Path) -> None:
        """Prepare to connect; a wrong key shows as a request that is never answered.

        Args:
            endpoint: `tcp://HOST:PORT`.
            key_file: this side's `NAME.key_secret`.
            manager_key_file: the manager's `manager.key`.

        Raises:
            HintcellError: a file holds no such key.
        """
        public, secret = _load(key_file)
        manager, _ = _load(manager_key_file)
        if secret is None:
            raise HintcellError(f"{key_file} holds no secret key: use the file that ends in .key_secret")
        self._control = Control(Manager(endpoint, keys=CurveKeys(public, secret, manager)))

    def permission_changed(
        self,
        *,
        principal: str | None = None,
        labels: Sequence[str] | None = None,
        snapshot_id: str | None = None,
        session_id: str | None = None,
        everyone: bool = False,
    ) -> ChangeReport:
        """As `Client.permission_changed`; needs the role `revoke`."""
        change = permission_change(principal, labels, snapshot_id, session_id, everyone=everyone)
        return self._control.ask(change, ChangeReport)

    def status(self, *, full_memory: bool = False, history: bool = False) -> Status:
        """As `Client.status`; needs the role `observe`."""
        return self._control.ask(StatusRequest(full_memory, history), Status)

    def end_of(self, session_id: str) -> End:
        """As `Client.end_of`; needs the role `observe`."""
        return self._control.ask(EndRequest(session_id), End)

    def close(self) -> None:
        """Disconnect."""
        self._control.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _load(path: Path) -> tuple[bytes, bytes | None]:
    try:
        return zmq.auth.load_certificate(path)  # pyright: ignore[reportUnknownMemberType]
    except (OSError, ValueError) as error:
        raise HintcellError(f"{path} holds no key: {error}") from error
