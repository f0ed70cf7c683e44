"""The LangChain adapter under LangChain's own runners: chains, and agents with a scripted model."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import ConfigurableField, RunnableConfig, RunnableLambda
from langchain_core.tools import BaseTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import get_runtime
from msgspec import Struct, convert

from hintcell import Client
from hintcell.integrations.langchain import HintcellRetriever, search_tools
from hintcell.integrations.wording import CLOSE_SEARCH, MORE_RESULTS, SEARCH_CODE
from hintcell.searches import Results, Searches, SearchFailed
from tests.client.searches import QUERY
from tests.integrations.reading import (
    DOCUMENTS,
    Revoked,
    Waiting,
    everything,
    open_sessions,
    ranks_in,
    sessions_become,
)
from tests.integrations.script import (
    CLOSING,
    MAKING_A_CURSOR_UP,
    READING,
    READING_THE_SECOND_PAGE,
    SEARCHING,
    Step,
    stealing,
)

_TEXTS = {document.id: document.text for document in DOCUMENTS}


class Scripted(BaseChatModel):
    """A model that calls one tool after another."""

    script: list[Step]

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        said = [str(message.content) for message in messages if isinstance(message, ToolMessage)]
        if len(said) == len(self.script):
            return ChatResult(generations=[ChatGeneration(message=AIMessage("done"))])
        name, arguments = self.script[len(said)]
        call = {"name": name, "args": arguments(said), "id": f"call {len(said)}", "type": "tool_call"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        assert [tool.name for tool in tools] == [SEARCH_CODE, MORE_RESULTS, CLOSE_SEARCH]
        return self

    @property
    def _llm_type(self) -> str:
        return "scripted"


def run(
    tools: list[BaseTool],
    script: list[Step],
    *,
    config: RunnableConfig | None = None,
    is_async: bool = False,
    **more: Any,
) -> list[ToolMessage]:
    agent = create_agent(Scripted(script=script), tools, **more)
    question: Any = {"messages": [("user", "Where is the configuration read?")]}
    state = asyncio.run(agent.ainvoke(question, config)) if is_async else agent.invoke(question, config)
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def test_an_agent_searches_reads_on_and_closes(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    first, second, closing = run(
        search_tools(searches, principal=principal), [SEARCHING, READING, CLOSING], is_async=is_async
    )
    assert ranks_in(str(first.content)) == [1, 2, 3, 4, 5]
    assert ranks_in(str(second.content)) == list(range(6, 13))
    assert closing.content == "The search is closed."
    assert [message.status for message in (first, second, closing)] == ["success"] * 3
    assert sessions_become(client, principal, 0)


def test_the_artifact_is_the_page(searches: Searches, principal: str, is_async: bool) -> None:
    first, second = run(search_tools(searches, principal=principal), [SEARCHING, READING], is_async=is_async)
    page = convert(second.artifact, Results)
    assert [hit.rank for hit in page.hits] == list(range(6, 13))
    assert (page.session, page.total) == (first.artifact["session"], len(DOCUMENTS))


def test_no_text_of_a_document_is_told_to_the_model(searches: Searches, principal: str) -> None:
    (message,) = run(search_tools(searches, principal=principal), [SEARCHING])
    assert not any(text in f"{message.content} {message.artifact}" for text in _TEXTS.values() if text.strip())


def test_a_revoked_session_is_a_tool_error_with_its_reason(client: Client, principal: str, is_async: bool) -> None:
    with Revoked(client, everything) as searches:
        first, second = run(search_tools(searches, principal=principal), [SEARCHING, READING], is_async=is_async)
    assert (first.status, second.status) == ("success", "error")
    assert "permission_changed" in str(second.content)
    assert "search again" in str(second.content)
    assert (second.artifact, "\n" in str(second.content)) == (None, False)


def test_an_unknown_cursor_is_a_tool_error_and_ends_nothing(searches: Searches, principal: str, is_async: bool) -> None:
    _, second, third = run(
        search_tools(searches, principal=principal),
        [SEARCHING, MAKING_A_CURSOR_UP, READING_THE_SECOND_PAGE],
        is_async=is_async,
    )
    assert (second.status, third.status) == ("error", "success")
    assert "next_cursor" in str(second.content)


def test_arguments_that_do_not_fit_are_a_tool_error_which_names_them(
    searches: Searches, principal: str, is_async: bool
) -> None:
    (message,) = run(
        search_tools(searches, principal=principal),
        [(SEARCH_CODE, lambda _: {"query": "secret", "limit": 0})],
        is_async=is_async,
    )
    assert message.status == "error"
    assert str(message.content).startswith("limit: ")
    assert "secret" not in str(message.content)


def test_the_configuration_names_who_asks(client: Client, searches: Searches, principal: str, is_async: bool) -> None:
    config: RunnableConfig = {"configurable": {"user_id": principal}}
    first, second = run(search_tools(searches), [SEARCHING, READING], config=config, is_async=is_async)
    assert (first.status, second.status) == ("success", "success")
    assert open_sessions(client, principal) == 1


@pytest.mark.parametrize("configurable", [{}, {"user_id": None}, {"user_id": " "}, {"user_id": 7}])
def test_a_configuration_that_names_nobody_ends_the_run(
    searches: Searches, configurable: dict[str, Any], is_async: bool
) -> None:
    with pytest.raises(ValueError, match="nobody is named"):
        run(search_tools(searches), [SEARCHING], config={"configurable": configurable}, is_async=is_async)


def test_a_configuration_does_not_change_a_fixed_principal(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    other = f"{principal} 2"
    run(
        search_tools(searches, principal=principal),
        [SEARCHING],
        config={"configurable": {"user_id": other}},
        is_async=is_async,
    )
    assert (open_sessions(client, principal), open_sessions(client, other)) == (1, 0)


def test_a_search_of_one_principal_does_not_exist_for_another(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    tools = search_tools(searches)
    (first,) = run(tools, [SEARCHING], config={"configurable": {"user_id": principal}}, is_async=is_async)
    stolen = stealing(str(first.content))
    reading, closing = run(tools, stolen, config={"configurable": {"user_id": "mallory"}}, is_async=is_async)
    assert reading.status == "error"
    assert "there is no such search" in str(reading.content)
    assert closing.content == "There was no such search open."
    assert open_sessions(client, principal) == 1


def test_searches_that_were_made_for_a_run_end_with_it(client: Client, principal: str) -> None:
    with Searches(client, everything) as searches:
        run(search_tools(searches, principal=principal), [SEARCHING])
        assert open_sessions(client, principal) == 1
    assert sessions_become(client, principal, 0)


class Context(Struct):
    """What an application gives to a run of LangGraph."""

    user: str | None


def test_a_function_may_take_who_asks_from_the_runs_context(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    tools = search_tools(searches, principal=lambda _: get_runtime(Context).context.user)
    agent = create_agent(Scripted(script=[SEARCHING, READING]), tools, context_schema=Context)
    question: Any = {"messages": [("user", "Where is the configuration read?")]}

    def ask(context: Context) -> None:
        if is_async:
            asyncio.run(agent.ainvoke(question, context=context))
        else:
            agent.invoke(question, context=context)

    ask(Context(principal))
    assert open_sessions(client, principal) == 1
    with pytest.raises(ValueError, match="nobody is named"):
        ask(Context(None))


def test_the_next_turn_of_a_conversation_reads_on(searches: Searches, principal: str) -> None:
    tools = search_tools(searches, principal=principal)
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    memory = InMemorySaver()
    assert len(run(tools, [SEARCHING], config=config, checkpointer=memory)) == 1
    _, second = run(tools, [SEARCHING, READING], config=config, checkpointer=memory)
    assert ranks_in(str(second.content)) == list(range(6, 13))


def test_a_tool_called_by_hand_gives_its_lines_or_raises(client: Client, principal: str) -> None:
    with Searches(client, everything) as searches:
        search, *_ = search_tools(searches, principal=principal)
        assert ranks_in(str(search.invoke({"query": QUERY, "limit": 3}))) == [1, 2, 3]
        search.handle_tool_error = False
        with pytest.raises(ToolException, match="blank"):
            search.invoke({"query": " "})


def test_a_cancelled_search_leaves_no_session(client: Client, principal: str) -> None:
    """The thread that opens it goes on: what it opens when nobody waits any more, it closes."""
    with Waiting(client) as searches:
        agent = create_agent(Scripted(script=[SEARCHING]), search_tools(searches, principal=principal))
        searches.cancel_when_asked(lambda: agent.ainvoke({"messages": [("user", "?")]}))
        assert sessions_become(client, principal, 0)


def retrieve(retriever: Any, query: str, is_async: bool, config: RunnableConfig | None = None) -> list[Document]:
    found = asyncio.run(retriever.ainvoke(query, config)) if is_async else retriever.invoke(query, config)
    return cast(list[Document], found)


def test_a_retriever_gives_texts_with_where_they_stand(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    retriever = HintcellRetriever(searches=searches, principal=principal, k=3)
    found = retrieve(retriever, QUERY, is_async)
    assert [document.metadata["rank"] for document in found] == [1, 2, 3]
    for document in found:
        assert document.page_content == _TEXTS[str(document.id)]
        assert document.metadata.keys() == {"id", "path", "line", "name", "rank", "score", "snapshot_id"}
        assert (document.metadata["id"], document.metadata["snapshot_id"]) == (document.id, "snapshot")
    assert found[0].metadata["score"] > 0
    assert sessions_become(client, principal, 0)


def test_a_cancelled_retrieval_leaves_no_session(client: Client, principal: str) -> None:
    with Waiting(client) as searches:
        retriever = HintcellRetriever(searches=searches, principal=principal)
        searches.cancel_when_asked(lambda: retriever.ainvoke(QUERY))
        assert sessions_become(client, principal, 0)


def test_a_retriever_reads_as_many_pages_as_it_needs(searches: Searches, principal: str, is_async: bool) -> None:
    found = retrieve(HintcellRetriever(searches=searches, principal=principal, k=230), QUERY, is_async)
    assert [document.metadata["rank"] for document in found] == list(range(1, 231))
    everything_there_is = retrieve(HintcellRetriever(searches=searches, principal=principal, k=999), QUERY, is_async)
    assert {document.id for document in everything_there_is} == _TEXTS.keys()


def test_a_retriever_gives_nothing_of_a_session_that_was_revoked(
    client: Client, principal: str, is_async: bool
) -> None:
    with Revoked(client, everything) as searches, pytest.raises(SearchFailed, match="permission_changed") as failed:
        retrieve(HintcellRetriever(searches=searches, principal=principal, k=150), QUERY, is_async)
    assert failed.value.reason == "permission_changed"
    assert open_sessions(client, principal) == 0


def test_a_retriever_alone_or_in_a_chain_takes_who_asks_from_the_configuration(
    client: Client, principal: str, is_async: bool
) -> None:
    asked: list[str] = []

    def source(who: str, globs: Sequence[str]) -> Any:
        asked.append(who)
        return everything(who, globs)

    with Searches(client, source) as searches:
        retriever = HintcellRetriever(searches=searches, k=2)
        chain = retriever | RunnableLambda(len)
        config: RunnableConfig = {"configurable": {"user_id": principal}}
        assert asyncio.run(chain.ainvoke(QUERY, config)) == 2 if is_async else chain.invoke(QUERY, config) == 2
        retrieve(retriever, QUERY, is_async, {"configurable": {"user_id": "bob"}})
        field = retriever.configurable_fields(principal=ConfigurableField(id="who"))
        retrieve(field, QUERY, is_async, {"configurable": {"who": "carol"}})
        function = HintcellRetriever(searches=searches, principal=lambda config: config["configurable"]["tenant"])
        retrieve(function, QUERY, is_async, {"configurable": {"tenant": "dave"}})
    assert asked == [principal, "bob", "carol", "dave"]


def test_an_argument_that_a_retriever_does_not_know_is_passed_over(searches: Searches, principal: str) -> None:
    """As by every retriever: a chain may hand on what is meant for another step."""
    retriever = HintcellRetriever(searches=searches, principal=principal, k=1)
    assert len(retriever.invoke(QUERY, verbose=False, other=1)) == 1
    assert len(asyncio.run(retriever.ainvoke(QUERY, other=1))) == 1


def test_a_retriever_for_nobody_is_an_error(searches: Searches, is_async: bool) -> None:
    with pytest.raises(ValueError, match="nobody is named"):
        retrieve(HintcellRetriever(searches=searches), QUERY, is_async)
    with pytest.raises(ValueError, match="nobody is named"):
        HintcellRetriever(searches=searches, principal=" ")
    with pytest.raises(ValueError, match="nobody is named"):
        search_tools(searches, principal="")


def test_a_retriever_shows_and_stores_nothing_of_its_searches(searches: Searches) -> None:
    retriever = HintcellRetriever(searches=searches, principal="alice")
    assert "searches" not in repr(retriever)
    assert "searches" not in retriever.model_dump()


def test_globs_narrow_a_retriever_and_a_tool(client: Client, principal: str) -> None:
    asked: list[Sequence[str]] = []

    def source(who: str, globs: Sequence[str]) -> Any:
        asked.append(list(globs))
        return everything(who, globs)

    with Searches(client, source) as searches:
        HintcellRetriever(searches=searches, principal=principal, globs=["*.py"]).invoke(QUERY)
        search, *_ = search_tools(searches, principal=principal)
        search.invoke({"query": QUERY, "globs": ["*.go"]})
        search.invoke({"query": QUERY, "globs": []})
    assert asked == [["*.py"], ["*.go"], []]
