"""The manager as a client holds it: started by it, or found in its directory, and noticed when it dies.

Covers the connection that each side watches the other by, and the private manager's process. Does not cover
sessions or control requests.
"""

import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Final, Self

import msgspec

from hintcell.control import Manager
from hintcell.errors import ManagerUnavailable, ProtocolViolated
from hintcell.forks import close_in_child, making
from hintcell_manager.protocol import (
    CONTROL_NAME,
    DOOR_NAME,
    EVENTS_NAME,
    LOCK_NAME,
    MAX_DOOR_LINE_BYTES,
    MAX_SOCKET_PATH_BYTES,
    Attach,
    Attached,
    ManagerOptions,
    Refused,
    door_replies,
    encode_line,
)

# Starting Python and loading ZeroMQ takes a fifth of a second, some seconds on a machine that is busy.
START_DEADLINE_S: Final = 20.0
# A manager that serves answers at once.
ATTACH_DEADLINE_S: Final = 5.0
# A manager that starts looks at its client within a second.
START_STOP_DEADLINE_S: Final = 5.0
# How soon to knock again at a door where hundreds are waiting already.
CROWDED_DOOR_S: Final = 0.005

_STDERR: Final = 2
# The manager's own deadlines for ending every session add up to less.
STOP_DEADLINE_S: Final = 15.0


class Sidecar:
    """A manager that serves this process.

    Attributes:
        directory: where its sockets are.
        instance: its name, new at every start.
        pid: its process.
        client: the manager's name for this client.
        presence: a connection that hangs up when the manager is gone.
    """

    def __init__(self, presence: socket.socket, process: subprocess.Popen[bytes] | None, attached: Attached) -> None:
        self.directory = Path(attached.directory)
        self.instance = attached.instance
        self.pid = attached.pid
        self.client = attached.client
        self.presence = presence
        # Also at exit, and when the client is simply forgotten.
        self._stop = weakref.finalize(self, _stop, presence, process, self.directory, os.getpid())

    @classmethod
    def open(cls, directory: Path | None, options: ManagerOptions | None) -> Self:
        """The manager that serves `directory`, or, without one, a new private manager that runs with `options`.

        Raises:
            ManagerUnavailable: there is none, or it does not start.
            ValueError: options are given for a manager that is running already.
        """
        if directory is None:
            return cls.start(options or ManagerOptions())
        if options is not None:
            raise ValueError("options are for a private manager: give a shared one its own with `hintcell serve`")
        return cls.find(directory)

    @classmethod
    def start(cls, options: ManagerOptions) -> Self:
        """Start a manager that is private to this process.

        Raises:
            ManagerUnavailable: it does not start; the message is its own.
        """
        if not sys.executable:
            raise ManagerUnavailable("this Python does not know its own executable: start `hintcell serve` instead")
        try:
            with making():
                ours, theirs = map(_above_standard, socket.socketpair())
                close_in_child(ours)
                close_in_child(theirs)
        except OSError as error:
            raise ManagerUnavailable(f"cannot make a socket: {error.strerror}") from error
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(ours.close)
            try:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "hintcell_manager", "serve"),
                        *("--private-to", str(theirs.fileno()), "--options", msgspec.json.encode(options).decode()),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=None if _is_open(_STDERR) else subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # A terminal's Ctrl-C is for this process; the manager follows it.
                )
            except OSError as error:
                raise ManagerUnavailable(f"cannot start a manager: {error.strerror}") from error
            undo.callback(_end_start, ours, process)
            theirs.close()  # So that the manager's death is seen as the end of what it says.
            try:
                attached = _attached(ours, time.monotonic() + START_DEADLINE_S)
            except TimeoutError as error:
                raise ManagerUnavailable(f"the manager did not answer within {START_DEADLINE_S:g} s") from error
            undo.pop_all()
        return cls(ours, process, attached)

    @classmethod
    def find(cls, directory: Path) -> Self:
        """Connect to the manager that serves this directory.

        Raises:
            ManagerUnavailable: there is none, or others could have put one of theirs there.
        """
        directory = directory.absolute()
        if len(os.fsencode(directory / DOOR_NAME)) > MAX_SOCKET_PATH_BYTES:
            raise ManagerUnavailable(f"{directory} is too long a path for sockets: no manager can serve it")
        _check_private(directory)
        until = time.monotonic() + ATTACH_DEADLINE_S
        presence = new_socket()
        try:
            connect(presence, directory / DOOR_NAME, until)
            presence.sendall(encode_line(Attach()))
            attached = _attached(presence, until)
        except OSError as error:
            presence.close()
            raise ManagerUnavailable(f"the manager in {directory} does not answer: {error}") from error
        except BaseException:
            presence.close()
            raise
        return cls(presence, None, attached)

    @property
    def door(self) -> Path:
        """The session door."""
        return self.directory / DOOR_NAME

    @property
    def manager(self) -> Manager:
        """Where it takes control requests."""
        return Manager(f"ipc://{self.directory / CONTROL_NAME}", self.presence)

    @property
    def events_endpoint(self) -> str:
        """ZeroMQ's name of where it publishes events."""
        return f"ipc://{self.directory / EVENTS_NAME}"

    def close(self) -> None:
        """Let the manager go; a private one is stopped and waited for."""
        self._stop()


def _check_private(directory: Path) -> None:
    try:
        found = directory.stat()
    except OSError as error:
        raise ManagerUnavailable(
            f"no manager serves {directory} ({error.strerror}): start one with `hintcell serve`"
        ) from error
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ManagerUnavailable(
            f"{directory} is not yours alone, and whoever serves it would see your documents: use another directory"
        )


def new_socket() -> socket.socket:
    """A socket for a door, which a forked child does not keep.

    Raises:
        ManagerUnavailable: no descriptor is free.
    """
    try:
        with making():
            connection = _above_standard(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            close_in_child(connection)
    except OSError as error:
        raise ManagerUnavailable(f"cannot make a socket: {error.strerror}") from error
    return connection


def _above_standard(connection: socket.socket) -> socket.socket:
    """The socket on a descriptor that nobody takes for a standard stream, which are free in a daemon that closed them.

    Popen would put the child's own there, and a library that writes to standard error would write to the socket.
    """
    if connection.fileno() > _STDERR:
        return connection
    with connection:
        return socket.socket(fileno=fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def reach(connection: socket.socket, door: Path) -> bool:
    """Connect without waiting, which a unix socket does at once or not at all; false if the door has no room now.

    The caller waits for CROWDED_DOOR_S and tries again: the kernel's own wait would end at no deadline of ours.

    Raises:
        ManagerUnavailable: nobody listens there.
    """
    connection.setblocking(False)
    try:
        connection.connect(os.fspath(door))
    except BlockingIOError:
        return False
    except OSError as error:
        reason = error.strerror or error
        raise ManagerUnavailable(
            f"no manager serves {door.parent} ({reason}): start one with `hintcell serve`"
        ) from error
    return True


def connect(connection: socket.socket, door: Path, until: float) -> None:
    """Connect to a door, and leave the socket with the time that is left.

    Args:
        connection: from `new_socket`.
        door: which one.
        until: a time of the monotonic clock.

    Raises:
        ManagerUnavailable: nobody listens there.
        TimeoutError: it had no room until then.
    """
    while not reach(connection, door):
        if time.monotonic() > until:
            raise TimeoutError("the door is crowded")
        time.sleep(CROWDED_DOOR_S)
    connection.settimeout(left_s(until))


def left_s(until: float) -> float:
    """The time until then, for `settimeout`, to which 0 would mean something else."""
    return max(0.001, until - time.monotonic())


def _attached(presence: socket.socket, until: float) -> Attached:
    line = bytearray()
    try:
        while not line.endswith(b"\n"):
            presence.settimeout(left_s(until))
            data = presence.recv(MAX_DOOR_LINE_BYTES)
            if not data:
                raise ManagerUnavailable("the manager died while starting: its standard error says why")
            line += data
        reply = door_replies.decode(line)
    except msgspec.MsgspecError as error:
        raise ProtocolViolated(f"the manager's greeting cannot be read: {error}") from error
    if isinstance(reply, Refused):
        raise ManagerUnavailable(f"the manager did not start: {reply.message}")
    if not isinstance(reply, Attached):
        raise ProtocolViolated("the manager's greeting is none")
    presence.settimeout(None)
    return reply


def _end_start(presence: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Have a manager that is still starting clean up and leave, as it does when its client goes; else kill it."""
    presence.close()
    try:
        process.wait(START_STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _stop(presence: socket.socket, process: subprocess.Popen[bytes] | None, directory: Path, owner: int) -> None:
    presence.close()
    if process is None:
        return
    if os.getpid() != owner:
        process.returncode = 0  # A forked child's copy, of a process that is not its own to wait for.
        return
    try:
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # A manager that was killed left them.
    for name in (DOOR_NAME, CONTROL_NAME, EVENTS_NAME, LOCK_NAME):
        (directory / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()
