"""The LlamaIndex adapter under LlamaIndex's own query engine with its mock model, and under its retriever's runner."""

import asyncio
from collections.abc import Sequence

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import ResponseMode
from llama_index.core.schema import MetadataMode, NodeWithScore

from hintcell import Client, Document
from hintcell.catalog.model import Location
from hintcell.integrations.llama_index import HintcellRetriever
from hintcell.searches import Documents, Searches, SearchFailed, Snapshot
from tests.client.searches import QUERY
from tests.integrations.reading import DOCUMENTS, Revoked, Waiting, everything, sessions_become

_TEXTS = {document.id: document.text for document in DOCUMENTS}


def retrieve(retriever: HintcellRetriever, is_async: bool) -> list[NodeWithScore]:
    return asyncio.run(retriever.aretrieve(QUERY)) if is_async else retriever.retrieve(QUERY)


def test_a_retriever_gives_text_nodes_with_where_they_stand(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    found = retrieve(HintcellRetriever(searches, principal, k=3), is_async)
    assert [scored.node.metadata["rank"] for scored in found] == [1, 2, 3]
    for scored in found:
        assert scored.text == _TEXTS[scored.node_id]
        assert scored.node.metadata.keys() == {"id", "path", "line", "name", "rank", "score", "snapshot_id"}
        assert scored.node.metadata["id"] == scored.node_id
        assert scored.score == scored.node.metadata["score"] > 0
    assert sessions_become(client, principal, 0)


def test_a_query_engine_answers_from_the_nodes_and_is_told_where_they_stand(
    client: Client, principal: str, is_async: bool
) -> None:
    snapshot = Documents(
        "s",
        [Document("a", "def read_config(): ..."), Document("b", "def write(): ...")],
        {"a": Location("src/config.py", 7, "read_config")},
    )
    with Searches(client, lambda *_: snapshot) as searches:
        engine = RetrieverQueryEngine.from_args(
            HintcellRetriever(searches, principal, k=1), llm=MockLLM(), response_mode=ResponseMode.COMPACT
        )
        answer = asyncio.run(engine.aquery("read_config")) if is_async else engine.query("read_config")
    assert [scored.node_id for scored in answer.source_nodes] == ["a"]
    # The mock model answers with its prompt.
    assert "def read_config(): ..." in str(answer)
    assert "path: src/config.py\nline: 7\nname: read_config" in str(answer)
    assert all(f"{key}: " not in str(answer) for key in ("id", "rank", "score", "snapshot_id"))


def test_a_node_that_is_embedded_says_where_it_stands_and_no_more(searches: Searches, principal: str) -> None:
    (scored,) = HintcellRetriever(searches, principal, k=1).retrieve(QUERY)
    assert "score" not in scored.node.get_content(MetadataMode.EMBED)
    assert "path: " in scored.node.get_content(MetadataMode.EMBED)


def test_a_retriever_reads_as_many_pages_as_it_needs(searches: Searches, principal: str, is_async: bool) -> None:
    found = retrieve(HintcellRetriever(searches, principal, k=230), is_async)
    assert [scored.node.metadata["rank"] for scored in found] == list(range(1, 231))
    all_there_is = retrieve(HintcellRetriever(searches, principal, k=999), is_async)
    assert {scored.node_id for scored in all_there_is} == _TEXTS.keys()


def test_a_retriever_gives_nothing_of_a_session_that_was_revoked(
    client: Client, principal: str, is_async: bool
) -> None:
    with Revoked(client, everything) as searches, pytest.raises(SearchFailed, match="permission_changed") as failed:
        retrieve(HintcellRetriever(searches, principal, k=150), is_async)
    assert failed.value.reason == "permission_changed"
    assert sessions_become(client, principal, 0)


def test_an_async_retrieval_leaves_the_loop_to_others(client: Client, principal: str) -> None:
    """The catalog waits for what the loop does only while the retrieval is under way."""
    with Waiting(client) as searches:

        async def both() -> list[NodeWithScore]:
            retrieval = asyncio.ensure_future(HintcellRetriever(searches, principal).aretrieve(QUERY))
            await asyncio.to_thread(searches.wait_until_asked)
            searches.go_on()
            return await retrieval

        assert len(asyncio.run(both())) == 10


def test_a_cancelled_retrieval_leaves_no_session(client: Client, principal: str) -> None:
    with Waiting(client) as searches:
        searches.cancel_when_asked(lambda: HintcellRetriever(searches, principal).aretrieve(QUERY))
        assert sessions_become(client, principal, 0)


def test_globs_and_principal_reach_the_catalog(client: Client, principal: str) -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def source(who: str, globs: Sequence[str]) -> Snapshot:
        asked.append((who, globs))
        return everything(who, globs)

    with Searches(client, source) as searches:
        HintcellRetriever(searches, principal, globs=["*.py"]).retrieve(QUERY)
    assert asked == [(principal, ("*.py",))]


@pytest.mark.parametrize(("who", "k"), [("", 1), (" ", 1), (None, 1), ("alice", 0)])
def test_a_retriever_for_nobody_or_for_nothing_is_an_error(searches: Searches, who: str, k: int) -> None:
    with pytest.raises(ValueError, match="nobody is named|at least 1"):
        HintcellRetriever(searches, who, k=k)
