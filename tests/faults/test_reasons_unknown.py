"""Sessions that are over while nobody can say why: their end is told as an end, and not as a failure to ask."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hintcell import Client, SessionEnded
from hintcell import control as control_module
from tests.client.conftest import client_type
from tests.client.searches import search, serving
from tests.faults.patches import Patches
from tests.faults.processes import Watched

__all__ = ["client_type"]


@pytest.fixture
def forgetful(patches: Patches, directory: Path, client_type: type[Client]) -> Iterator[Client]:
    """A client of a manager that remembers one end."""
    patches.manager(
        "import hintcell_manager.sessions as sessions; "
        "sessions.Sessions.__init__.__kwdefaults__['max_ends'] = sessions.MAX_REMEMBERED_ENDS = 1"
    )
    with serving(directory), client_type(directory) as client:
        yield client


def test_an_end_that_the_manager_has_forgotten_is_an_end(forgetful: Client) -> None:
    with search(forgetful, forgetful.grant("alice")) as session:
        session.page()
        forgetful.permission_changed(principal="alice")
        for _ in range(3):
            search(forgetful, forgetful.grant("bob")).close()
            forgetful.permission_changed(principal="bob")
        for _ in range(2):
            with pytest.raises(SessionEnded, match="no such session is remembered") as end:
                session.page()
            assert end.value.reason == "unknown"


@pytest.mark.parametrize("page_deadline_s", [0.2, 60.0])
def test_a_manager_that_stands_still_is_not_said_to_have_stopped_and_is_asked_again(
    client_type: type[Client], directory: Path, monkeypatch: pytest.MonkeyPatch, page_deadline_s: float
) -> None:
    with (
        serving(directory) as process,
        client_type(directory, page_deadline_s=page_deadline_s) as client,
        search(client, client.grant("alice")) as session,
        Watched(process.pid) as manager,
        Watched(session.pid) as worker,
    ):
        session.page()
        client.status()  # Before it answers, the manager has let go of the connection, which hides a worker's death.
        manager.stop()
        worker.kill()
        try:
            with monkeypatch.context() as patched:
                patched.setattr(control_module, "CONTROL_DEADLINE_S", 0.4)
                for call in (session.page, lambda: session.page("x")):
                    with pytest.raises(SessionEnded, match=r"why is not known: .* answer within 0\.[24] s") as end:
                        call()
                    assert end.value.reason == "unknown"
        finally:
            manager.resume()
        with pytest.raises(SessionEnded, match="crashed"):
            session.page()
