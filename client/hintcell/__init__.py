"""hintcell: ranked search over the documents that a user may read, one isolated process per session.

`Client` starts or finds a manager and opens sessions; each `Session` is read page by page. Importing this package
starts nothing, and loads neither NumPy nor scikit-learn.
"""

from hintcell.async_client import AsyncClient, AsyncSession
from hintcell.client import Client, Session
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
from hintcell_manager.protocol import (
    ChangeReport,
    End,
    EndedSession,
    EndReason,
    Grant,
    ManagerOptions,
    Memory,
    Status,
    default_directory,
)
from hintcell_worker.protocol import Candidate, Document, Hints

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
    "ManagerOptions",
    "ManagerUnavailable",
    "Memory",
    "OpenRefused",
    "Page",
    "ProtocolViolated",
    "RequestRejected",
    "Session",
    "SessionEnded",
    "Status",
    "default_directory",
]
