"""What a worker refuses: each rule's message reaches the caller, and the session is over."""

from typing import Any

import pytest

from hintcell import Client, ControlFailed, Document, Grant, HintcellError, Hints, Limits, RequestRejected
from tests.client.searches import QUERY, catalog, next_cursor, search

MIB = 1024 * 1024
DOCUMENTS = catalog(3)
HINTS = Hints("snapshot", QUERY, ["file.py:1"])

BAD_REQUESTS: dict[str, tuple[dict[str, Any], str]] = {
    "blank query": ({"query": " \u3000\n"}, "query is blank"),
    "long query": ({"query": "é" * 4_096 + "e"}, "query has 8193 bytes: at most 8192"),
    "blank snapshot": ({"snapshot_id": " "}, "snapshot_id is blank"),
    "long snapshot": ({"snapshot_id": "s" * 129}, "snapshot_id has 129 bytes: at most 128"),
    "no documents": ({"documents": []}, "documents is empty"),
    "same id twice": ({"documents": [*DOCUMENTS, DOCUMENTS[1]]}, r"documents\[3\].id repeats documents\[1\].id"),
    "blank id": ({"documents": [Document("\t", "text")]}, r"documents\[0\].id is blank"),
    "long id": ({"documents": [Document("é" * 64 + "e", "")]}, r"documents\[0\].id has 129 bytes: at most 128"),
    "many documents": ({"documents": catalog(4_097)}, "there are 4097 documents: at most 4096"),
    "much text": ({"documents": [Document("a", "x" * 2 * MIB), Document("b", "y")]}, "hold 2097153 bytes of text"),
    "huge request": ({"documents": [Document("a", "x" * 17 * MIB)]}, "over 16777216 bytes"),
    "limit 0": ({"limit": 0}, "limit: use 1 to 4096"),
    "limit 4097": ({"limit": 4_097}, "4097: use 1 to 4096"),
    "limit below 0": ({"limit": -1}, "-1: use 1 to 4096"),
    "hints for a snapshot": ({"hints": Hints("other", QUERY, [])}, "hints.snapshot_id is not the request's"),
    "hints for a query": ({"hints": Hints("snapshot", "other", [])}, "hints.query is not the request's"),
    "hint to nothing": ({"hints": Hints("snapshot", QUERY, ["x"])}, r"candidate_ids\[0\] is not the id"),
    "hint repeated": ({"hints": Hints("snapshot", QUERY, ["file.py:1"] * 2)}, r"candidate_ids\[1\] repeats"),
    "both hints": ({"hints": HINTS, "identifier_hints": True}, "exclude each other"),
}


@pytest.mark.parametrize(("request_", "message"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_request_is_rejected_with_the_rule_that_it_breaks(
    client: Client, grant: Grant, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestRejected, match=message) as rejection, search(client, grant, **request_) as session:
        session.page()
    assert rejection.value.reason == "rejected"
    assert rejection.value.exit_status == 2
    assert "\n" not in rejection.value.message


AT_THE_LIMITS: dict[str, dict[str, Any]] = {
    "query": {"query": "é" * 4_096},
    "snapshot": {"snapshot_id": "é" * 64},
    "id": {"documents": [Document("é" * 64, "text")]},
    "documents": {"documents": catalog(4_096), "limit": 4_096},
    "text": {"documents": catalog(4_096, text_bytes=512), "limit": 1},
    "one empty document": {"documents": [Document("a", "")]},
    "no hints": {"hints": Hints("snapshot", QUERY, None)},
}


@pytest.mark.parametrize("request_", AT_THE_LIMITS.values(), ids=AT_THE_LIMITS)
def test_a_request_at_a_limit_is_ranked(client: Client, grant: Grant, request_: dict[str, Any]) -> None:
    with search(client, grant, **request_) as session:
        assert session.page().total == len(request_.get("documents", catalog()))


@pytest.mark.parametrize(
    ("cursor", "limit", "message"),
    [
        ("", 5, "cursor"),
        ("not a cursor", 5, "cursor"),
        ("e30", 5, "cursor"),
        ("x" * 257, 5, "cursor"),
        ("x" * 2_000, 5, "over 1024 bytes"),
        (None, 0, "limit is 0: use 1 to 4096"),
        (None, 4_097, "limit is 4097: use 1 to 4096"),
        (None, 10**30, "use 1 to 4096"),
    ],
)
def test_a_bad_continuation_is_rejected_and_ends_the_session(
    client: Client, grant: Grant, cursor: str | None, limit: int, message: str
) -> None:
    with search(client, grant) as session:
        good = next_cursor(session.page())
        with pytest.raises(RequestRejected, match=message):
            session.page(good if cursor is None else cursor, limit=limit)
        with pytest.raises(RequestRejected, match=message):
            session.page(good)
        assert client.end_of(session.id).reason == "rejected"


def test_the_cursor_of_another_ranking_is_rejected(client: Client, grant: Grant) -> None:
    with search(client, grant) as one, search(client, grant, query="config") as other:
        cursor = next_cursor(one.page())
        with pytest.raises(RequestRejected, match="cursor"):
            other.page(cursor)
        assert one.page(cursor).offset == 20


def test_more_than_the_usual_limits_is_taken_when_they_are_raised(client: Client, grant: Grant) -> None:
    documents = catalog(5_000, text_bytes=500)
    with pytest.raises(RequestRejected, match="4096"), search(client, grant, documents=documents) as session:
        session.page()
    limits = Limits(max_documents=5_000, max_text_bytes=4 * MIB)
    with search(client, grant, documents=documents, limit=4_096, limits=limits) as session:
        assert [len(page.candidates) for page in session] == [4_096, 904]


def test_limits_that_nobody_can_mean_are_refused(client: Client, grant: Grant) -> None:
    limits = Limits(max_documents=0)
    with pytest.raises(RequestRejected, match="max-documents is 0"), search(client, grant, limits=limits) as session:
        session.page()


def test_the_end_of_a_living_session_is_not_told(client: Client, grant: Grant) -> None:
    with search(client, grant) as session, pytest.raises(ControlFailed, match="not ended"):
        client.end_of(session.id)


def test_the_end_of_an_unknown_session_is_not_made_up(client: Client) -> None:
    with pytest.raises(ControlFailed, match="no such session"):
        client.end_of("0123456789abcdef")


@pytest.mark.parametrize(
    ("principal", "labels", "message"),
    [("", [], "blank"), (" \t", [], "blank"), ("p" * 1_025, [], "1024 bytes"), ("p", ["l" * 1_025], "1024 bytes")],
)
def test_a_grant_for_nobody_or_with_a_name_too_long_is_refused(
    client: Client, principal: str, labels: list[str], message: str
) -> None:
    with pytest.raises(ControlFailed, match=message):
        client.grant(principal, labels)


def test_a_grant_with_too_many_labels_is_refused(client: Client) -> None:
    assert len(client.grant("p", [str(number) for number in range(256)]).labels) == 256
    with pytest.raises(ControlFailed, match="257 labels"):
        client.grant("p", [str(number) for number in range(257)])


def test_every_grant_that_was_given_can_be_opened(client: Client, principal: str) -> None:
    grant = client.grant(principal, [f"{number:03}".ljust(1_024, "l") for number in range(256)])
    with search(client, grant) as session:
        assert session.page().total == 50


UNWRITABLE: dict[str, dict[str, Any]] = {
    "query": {"query": "a\ud800"},
    "snapshot": {"snapshot_id": "a\ud800"},
    "text": {"documents": [Document("a", "b\udc80")]},  # As from a file that was read with surrogateescape.
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("request_", UNWRITABLE.values(), ids=UNWRITABLE)
def test_text_that_utf8_cannot_write_is_refused_with_an_error_of_ours(
    client: Client, grant: Grant, request_: dict[str, Any]
) -> None:
    with pytest.raises(HintcellError), search(client, grant, **request_) as session:
        session.page()


def test_a_cursor_that_utf8_cannot_write_leaves_the_session_as_it_was(client: Client, grant: Grant) -> None:
    with search(client, grant) as session:
        cursor = next_cursor(session.page())
        with pytest.raises((HintcellError, UnicodeError)):
            session.page("\ud800")
        assert session.page(cursor).offset == 20
