"""Control from another host or user: over TCP, encrypted and authenticated with CURVE, or not at all.

A directory of keys says who may do what. It holds the manager's own pair (`manager.key`, `manager.key_secret`),
and the public keys of those who may look (`observe/NAME.key`) and who may announce permission changes
(`revoke/NAME.key`). A key counts as long as its file is there: it is looked up at every handshake and at every
request, so that removing it works at once.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final, Literal

import zmq
import zmq.asyncio
import zmq.auth
import zmq.auth.asyncio

from hintcell_manager.control import Handle, Router, bind
from hintcell_manager.protocol import ControlRequest, EndRequest, PermissionChange, StatusRequest

Role = Literal["observe", "revoke"]
ROLES: Final[tuple[Role, ...]] = ("observe", "revoke")

_MANAGER: Final = "manager"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLE_FOR: Final[dict[type, Role]] = {
    StatusRequest: "observe",
    EndRequest: "observe",
    PermissionChange: "revoke",
}


class KeysError(Exception):
    """The keys cannot be used; the message says why and what to do."""


class Keys:
    """A directory of CURVE keys."""

    def __init__(self, directory: Path) -> None:
        """Use an existing directory.

        Raises:
            KeysError: the manager's pair is missing, or others can read its secret half.
        """
        self._directory = directory
        secret = directory / f"{_MANAGER}.key_secret"
        try:
            mode = secret.stat().st_mode
            self.public, private = zmq.auth.load_certificate(secret)  # pyright: ignore[reportUnknownMemberType]
        except (OSError, ValueError) as error:
            raise KeysError(f"there is no manager's key in {directory}: make one with `hintcell keys`") from error
        if private is None:
            raise KeysError(f"{secret} holds no secret key: make one with `hintcell keys`")
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeysError(f"{secret} is open to other users: run chmod 600 on it")
        self.secret: Final = private

    def holds(self, public_key: str, role: Role) -> bool:
        """Whether the key of this name in Z85 is among those for the role, now."""
        for path in (self._directory / role).glob("*.key"):
            try:
                public, _ = zmq.auth.load_certificate(path)  # pyright: ignore[reportUnknownMemberType]
            except (OSError, ValueError):  # Just removed, or half written: no key.
                continue
            if public.decode() == public_key:
                return True
        return False

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a handshake with this public key may go on; the name and arguments are pyzmq's."""
        del domain
        return any(self.holds(key.decode(), role) for role in ROLES)

    def objection(self, sender: str, request: ControlRequest) -> str | None:
        """Why this sender may not ask for that."""
        role = _ROLE_FOR.get(type(request))
        if role is None:
            return "grants are for clients on the manager's own host: this connection can observe and revoke only"
        if not self.holds(sender, role):
            return f"this key has not the role {role}: ask whoever runs the manager"
        return None


def make_keys(directory: Path, client: str | None, role: Role) -> list[Path]:
    """Make the manager's pair, or a client's, and return the files that were written.

    A client's secret half is written to `clients/` below the directory, to be handed over and removed.

    Raises:
        KeysError: the client's name is no file name, or has a key already, or there is no manager's pair yet.
        OSError: a file cannot be written.
    """
    before = os.umask(0o077)
    try:
        if client is None:
            directory.mkdir(parents=True, exist_ok=True)
            if (directory / f"{_MANAGER}.key_secret").exists():
                raise KeysError(f"{directory} has a manager's key already: remove it first to make another")
            return [Path(path) for path in zmq.auth.create_certificates(directory, _MANAGER)]  # pyright: ignore[reportUnknownMemberType]
        if not _NAME.fullmatch(client):
            raise KeysError("a client's name is made of letters, digits, - and _")
        Keys(directory)
        public, secret = directory / role / f"{client}.key", directory / "clients" / f"{client}.key_secret"
        if public.exists() or secret.exists():
            raise KeysError(f"{client} has a key already: remove it first to make another")
        for path in (public, secret):
            path.parent.mkdir(exist_ok=True)
        made = [Path(path) for path in zmq.auth.create_certificates(secret.parent, client)]  # pyright: ignore[reportUnknownMemberType]
        return [made[0].rename(public), made[1]]
    finally:
        os.umask(before)


class RemoteControl:
    """Serves control requests over TCP until `close`."""

    def __init__(self, address: str, keys: Keys, handle: Handle) -> None:
        """Listen at `address` (`tcp://HOST:PORT`).

        Raises:
            OSError: it cannot listen there.
        """
        self._context = zmq.asyncio.Context()
        self._authenticator = zmq.auth.asyncio.AsyncioAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", credentials_provider=keys)
        router = self._context.socket(zmq.ROUTER)
        router.curve_server = True
        router.curve_publickey, router.curve_secretkey = keys.public, keys.secret
        try:
            bind(router, address)
        except OSError as error:
            self._authenticator.stop()
            self._context.destroy(linger=0)
            raise OSError(error.errno, f"cannot listen at {address}: {error.strerror}") from error
        self.endpoint: Final = bytes(router.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
        self._router = Router(router, handle, objection=keys.objection)

    async def close(self) -> None:
        """Stop serving."""
        await self._router.close()
        self._authenticator.stop()
        self._context.term()
