"""A client to be killed: `python driver.py MOMENT [DIRECTORY]` brings a session to that moment and stays there.

Prints one line of JSON with the pids of its manager, its template and its worker, and the id of its session. With a
directory, it is a client of the manager that serves it.
"""

import itertools
import json
import signal
import sys
from collections.abc import Callable

from hintcell import Client, Document, Grant, Session

_SMALL = [Document(str(number), "read the config") for number in range(50)]
_LARGE = [Document(str(number), "read the config ".ljust(512, "x")) for number in range(4_096)]


def tell(client: Client, session: Session | None = None) -> None:
    pids = {"manager": client.manager_pid, "template": client.status().template_pid}
    print(json.dumps(pids | ({"worker": session.pid, "session": session.id} if session else {})), flush=True)


def stand_still() -> None:
    while True:
        signal.pause()


def search(client: Client, grant: Grant, documents: list[Document]) -> Session:
    return client.open(grant, snapshot_id="snapshot", query="read config", documents=documents, limit=1)


def idle(client: Client) -> None:
    tell(client)


def template_loading(client: Client) -> None:
    tell(client)
    search(client, client.grant("alice"), _SMALL)


def opening(client: Client) -> None:
    for number in itertools.count():
        with search(client, client.grant("alice"), _SMALL) as session:
            if number == 3:
                tell(client, session)


def before_the_request(client: Client) -> None:
    Session.begin = lambda *_: None  # type: ignore[method-assign]
    tell(client, search(client, client.grant("alice"), _SMALL))


def half_a_request(client: Client) -> None:
    send = Session._send

    def send_half(session: Session, line: bytes) -> None:
        send(session, line[: len(line) // 2])

    Session._send = send_half  # type: ignore[method-assign,assignment]
    tell(client, search(client, client.grant("alice"), _LARGE))


def ranking(client: Client) -> None:
    search(client, client.grant("alice"), _SMALL).close()  # So that the template is ready.
    tell(client, search(client, client.grant("alice"), _LARGE))


def after_the_first_page(client: Client) -> None:
    session = search(client, client.grant("alice"), _SMALL)
    session.page()
    tell(client, session)


def turning(client: Client) -> None:
    session = search(client, client.grant("alice"), _SMALL)
    cursor = session.page().next_cursor
    tell(client, session)
    while True:
        session.page(cursor)


MOMENTS: dict[str, Callable[[Client], None]] = {
    moment.__name__: moment
    for moment in (
        idle,
        template_loading,
        opening,
        before_the_request,
        half_a_request,
        ranking,
        after_the_first_page,
        turning,
    )
}

if __name__ == "__main__":
    made = Client(*sys.argv[2:])
    MOMENTS[sys.argv[1]](made)
    stand_still()
