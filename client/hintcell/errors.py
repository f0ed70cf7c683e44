"""The errors that users of hintcell see. The type says whose fault it was, the message what to do next.

HintcellError
OpenRefused             no session was started; ask for a new grant, or mend the machine
SessionEnded            the session is over, for a reason that it carries
RequestRejected     ... because the caller's request breaks a rule of the protocol
ControlFailed           the manager did not do what was asked
ManagerUnavailable      there is no manager, or it died
DeadlineExceeded        something took longer than allowed
ProtocolViolated        the other side is broken or of another version: please report it
CatalogError            no catalog can be made of what was asked for (`hintcell.catalog`)
PolicyError             there is no policy to go by (`hintcell.policy`)
"""

from typing import Literal

from hintcell_manager.protocol import EndReason, RefusalReason


class HintcellError(Exception):
    """Base of everything that hintcell raises on purpose."""


class OpenRefused(HintcellError):
    """The manager did not start a session.

    Attributes:
        reason: why, in one word; see `RefusalReason`.
    """

    def __init__(self, reason: RefusalReason, message: str) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason


class SessionEnded(HintcellError):
    """The session is over and delivers nothing any more.

    Attributes:
        reason: why it ended; `unknown` if the manager could not be asked, or remembers it no more. That does not
            stick: a later call asks again.
        message: what is known beyond the reason.
        exit_status: the worker's exit status, minus the signal's number if one ended it; None if unknown.
        stderr_tail: the last that the worker wrote to standard error, if it crashed.
    """

    def __init__(
        self,
        reason: EndReason | Literal["unknown"],
        message: str = "",
        *,
        exit_status: int | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason: EndReason | Literal["unknown"] = reason
        self.message = message
        self.exit_status = exit_status
        self.stderr_tail = stderr_tail


class RequestRejected(SessionEnded):
    """The worker refused the request or a continuation; `message` says which rule it breaks."""


class ControlFailed(HintcellError):
    """The manager answered that it did not do what was asked."""


class ManagerUnavailable(HintcellError):
    """The manager is not there, could not be started, or died."""


class DeadlineExceeded(HintcellError, TimeoutError):
    """An answer did not come in time; what was waiting for it is closed."""


class ProtocolViolated(HintcellError):
    """An answer has no meaning here: a bug, or another version on the other side."""
