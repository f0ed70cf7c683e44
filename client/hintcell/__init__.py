"""hintcell: ranked search over the documents that a user may read, one isolated process per session.

`Client` starts or finds a manager and opens sessions; each `Session` is read page by page; `AsyncClient` and
`AsyncSession` are the same for asyncio. Importing this package starts nothing and loads nothing: each name is
loaded when it is first used, and none of them loads NumPy or scikit-learn.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hintcell.async_client import AsyncClient
    from hintcell.async_session import AsyncSession
    from hintcell.client import Client
    from hintcell.conversation import Page
    from hintcell.errors import (
        ControlFailed,
        DeadlineExceeded,
        HintcellError,
        ManagerUnavailable,
        OpenRefused,
        ProtocolViolated,
        RequestRejected,
        SessionEnded,
    )
    from hintcell.remote import RemoteManager
    from hintcell.session import Session
    from hintcell_manager.protocol import (
        ChangeReport,
        End,
        EndedSession,
        EndReason,
        Grant,
        ManagerEvent,
        ManagerOptions,
        Memory,
        Status,
        default_directory,
    )
    from hintcell_worker.protocol import Candidate, Document, Hints, Limits

_HOMES = {
    "hintcell.async_client": ("AsyncClient",),
    "hintcell.async_session": ("AsyncSession",),
    "hintcell.client": ("Client",),
    "hintcell.conversation": ("Page",),
    "hintcell.errors": (
        "ControlFailed",
        "DeadlineExceeded",
        "HintcellError",
        "ManagerUnavailable",
        "OpenRefused",
        "ProtocolViolated",
        "RequestRejected",
        "SessionEnded",
    ),
    "hintcell.remote": ("RemoteManager",),
    "hintcell.session": ("Session",),
    "hintcell_manager.protocol": (
        "ChangeReport",
        "End",
        "EndReason",
        "EndedSession",
        "Grant",
        "ManagerEvent",
        "ManagerOptions",
        "Memory",
        "Status",
        "default_directory",
    ),
    "hintcell_worker.protocol": ("Candidate", "Document", "Hints", "Limits"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncClient",
    "AsyncSession",
    "Candidate",
    "ChangeReport",
    "Client",
    "ControlFailed",
    "DeadlineExceeded",
    "Document",
    "End",
    "EndReason",
    "EndedSession",
    "Grant",
    "HintcellError",
    "Hints",
    "Limits",
    "ManagerEvent",
    "ManagerOptions",
    "ManagerUnavailable",
    "Memory",
    "OpenRefused",
    "Page",
    "ProtocolViolated",
    "RemoteManager",
    "RequestRejected",
    "Session",
    "SessionEnded",
    "Status",
    "default_directory",
]


def __getattr__(name: str) -> object:
    """Load a public name when it is first used (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
