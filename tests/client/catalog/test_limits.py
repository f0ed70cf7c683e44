"""Limits hold exactly, a refusal says by how much, and a choice is fair, within the limits and repeatable."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hintcell.catalog.limits import Gathering, OverLimitsError, split_length
from hintcell_worker.protocol import MAX_QUERY_BYTES, Document, Limits, Request, utf8_length

_SNAPSHOT_ID = "python:0123456789abcdef"

# For each group, each of its files, each of its functions: the text.
_Groups = list[list[list[str]]]
_texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\x00\x1f"\\\u2028'), max_size=30)
_groups = st.lists(st.lists(st.lists(_texts, max_size=4), max_size=4), min_size=1, max_size=3)


def _documents(groups: _Groups) -> list[list[list[Document]]]:
    return [
        [[Document(f"{g}/{f}:{n}", text) for n, text in enumerate(file)] for f, file in enumerate(group)]
        for g, group in enumerate(groups)
    ]


def _gathering(
    groups: Sequence[Sequence[Sequence[Document]]], limits: Limits, *, fit: bool, split: bool = False
) -> Gathering:
    gathering = Gathering(limits, len(_SNAPSHOT_ID), fit=fit, split=split)
    for g, group in enumerate(groups):
        gathering.start_group()
        for f, file in enumerate(group):
            for turn, document in enumerate(file):
                gathering.add(document, turn, f"{g}/{f}")
    return gathering


def _gather(
    groups: Sequence[Sequence[Sequence[Document]]], limits: Limits, *, fit: bool, split: bool = False
) -> list[Document]:
    return _gathering(groups, limits, fit=fit, split=split).chosen()


def _excess(groups: Sequence[Sequence[Sequence[Document]]], limits: Limits) -> str:
    """What is said about documents that are over the limits."""
    gathering = _gathering(groups, limits, fit=False)
    with pytest.raises(OverLimitsError):
        gathering.chosen()
    return gathering.excess("functions")


def _flat(groups: Sequence[Sequence[Sequence[Document]]]) -> list[Document]:
    return [document for group in groups for file in group for document in file]


def _measure(documents: list[Document]) -> Limits:
    """The tightest limits that these documents keep, with the longest query there can be."""
    request = Request(_SNAPSHOT_ID, "\x00" * MAX_QUERY_BYTES, documents)
    line_bytes = len(msgspec.json.encode(request)) + 1
    return Limits(len(documents), sum(utf8_length(document.text) for document in documents), line_bytes)


@given(_groups, st.booleans())
def test_documents_that_just_keep_every_limit_are_all_taken_in_their_order(groups: _Groups, fit: bool) -> None:
    documents = _documents(groups)
    assert _gather(documents, _measure(_flat(documents)), fit=fit) == _flat(documents)


@given(_groups, st.sampled_from(["max_documents", "max_text_bytes", "max_request_bytes"]))
def test_one_over_any_limit_is_refused(groups: _Groups, limit: str) -> None:
    documents = _documents(groups)
    tight = _measure(_flat(documents))
    assume(getattr(tight, limit) > 0 and _flat(documents))
    limits = msgspec.structs.replace(tight, **{limit: getattr(tight, limit) - 1})
    assert f"(1 over the limit of {getattr(limits, limit):,})" in _excess(documents, limits)


@given(_groups, st.integers(0, 20), st.integers(0, 200), st.integers(0, 2000))
def test_a_choice_keeps_every_limit_and_the_order_and_is_the_same_each_time(
    groups: _Groups, max_documents: int, max_text_bytes: int, json_bytes: int
) -> None:
    documents = _documents(groups)
    limits = Limits(max_documents, max_text_bytes, _measure([]).max_request_bytes + json_bytes)
    chosen = _gather(documents, limits, fit=True)
    size = _measure(chosen)
    assert size.max_documents <= limits.max_documents
    assert size.max_text_bytes <= limits.max_text_bytes
    assert size.max_request_bytes <= limits.max_request_bytes
    assert chosen == [document for document in _flat(documents) if document in chosen]
    assert _gather(documents, limits, fit=True) == chosen


@given(_groups, st.integers(0, 20), st.integers(0, 200))
def test_whatever_was_not_chosen_did_not_fit(groups: _Groups, max_documents: int, max_text_bytes: int) -> None:
    documents = _documents(groups)
    chosen = _gather(documents, Limits(max_documents, max_text_bytes), fit=True)
    room = max_text_bytes - sum(utf8_length(document.text) for document in chosen)
    for document in _flat(documents):
        assert document in chosen or len(chosen) == max_documents or utf8_length(document.text) > room


@given(_groups, st.integers(0, 40))
def test_groups_and_files_take_turns(groups: _Groups, max_documents: int) -> None:
    documents = _documents(groups)
    chosen = set(_gather(documents, Limits(max_documents), fit=True))
    taken = [[[document in chosen for document in file] for file in group] for group in documents]
    for group in taken:
        assert all(file == sorted(file, reverse=True) for file in group)  # each file from its first function on
        _assert_in_turns([(sum(file), len(file)) for file in group])
    _assert_in_turns([(sum(map(sum, group)), sum(map(len, group))) for group in taken])


def _assert_in_turns(counts: list[tuple[int, int]]) -> None:
    """Of (taken, available) pairs, none may be two behind another unless nothing more was available."""
    most = max((taken for taken, _ in counts), default=0)
    assert all(taken == available or taken >= most - 1 for taken, available in counts)


def test_one_huge_text_gives_its_turn_away() -> None:
    huge, small = Document("a", "x" * 101), Document("b", "y")
    assert _gather([[[huge, small]]], Limits(max_text_bytes=100), fit=True) == [small]


def test_a_text_of_control_characters_counts_with_its_escapes() -> None:
    documents = [[[Document("a", "\x01" * 1000)]]]
    limits = Limits(max_request_bytes=_measure([]).max_request_bytes + 5_000)
    assert "bytes as JSON" in _excess(documents, limits)
    assert _gather(documents, limits, fit=True) == []


def test_a_refusal_names_every_limit_and_what_is_over_it() -> None:
    documents = [[[Document(str(number), "\x01" * 1000) for number in range(20)]]]
    line_bytes = _measure(_flat(documents)).max_request_bytes
    assert _excess(documents, Limits(15, 4_000, 100_000)) == (
        "20 functions (5 over the limit of 15) and 20,000 bytes of text (16,000 over the limit of 4,000) and "
        f"{line_bytes:,} bytes as JSON ({line_bytes - 100_000:,} over the limit of 100,000)"
    )


@given(_groups, st.sampled_from(["max_documents", "max_text_bytes", "max_request_bytes"]))
def test_with_the_limits_raised_as_advised_everything_fits_also_with_identifiers_split(
    groups: _Groups, limit: str
) -> None:
    documents = _flat(_documents(groups))
    tight = _measure(documents)
    assume(tight.max_text_bytes)
    low = msgspec.structs.replace(tight, **{limit: getattr(tight, limit) - 1})
    raised = msgspec.structs.replace(low, **_gathering(_documents(groups), low, fit=False).raised())
    assert _gather(_documents(groups), raised, fit=False) == documents
    assert _gather(_documents(groups), raised, fit=True, split=True) == documents
    assert split_length(documents) <= raised.max_text_bytes


def test_raised_limits_are_round_and_only_those_that_are_too_low() -> None:
    documents = [[[Document(str(number), "getId" * 100) for number in range(123)]]]
    gathering = _gathering(documents, Limits(100, 60_000), fit=False)
    assert gathering.raised() == {"max_documents": 130, "max_text_bytes": 74_000}  # 61,500, and 12,300 to split


@given(_groups, st.integers(0, 200))
def test_a_choice_leaves_room_for_identifiers_to_be_split_if_asked(groups: _Groups, max_text_bytes: int) -> None:
    documents = _documents(groups)
    chosen = _gather(documents, Limits(max_text_bytes=max_text_bytes), fit=True, split=True)
    assert split_length(chosen) <= max_text_bytes
    for document in _flat(documents):
        assert document in chosen or split_length([*chosen, document]) > max_text_bytes


def test_limits_beyond_what_a_worker_takes_are_not_to_be_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    gathering = _gathering([[[Document("a", "x" * 123)]]], Limits(1, 10), fit=False)
    assert gathering.raised() == {"max_text_bytes": 130}
    monkeypatch.setattr("hintcell_worker.protocol._MOST_BYTES", 122)
    assert gathering.raised() == {}
