"""The Pydantic-AI adapter under its own agents, with its function model and its test model."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest
from msgspec import Struct, convert
from pydantic_ai import Agent, AgentRunResult, UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import DynamicToolset

from hintcell import Client
from hintcell.integrations.pydantic_ai import HintcellToolset
from hintcell.integrations.wording import CLOSE_SEARCH, MORE_RESULTS, SEARCH_CODE
from hintcell.searches import Results, Searches
from tests.client.searches import QUERY, SOON_S
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
)

pytestmark = pytest.mark.usefixtures("loop")


class Deps(Struct):
    """What an application gives to a run."""

    user: str | None


def scripted(script: Sequence[Step], at_the_end: Callable[[], None] = lambda: None) -> FunctionModel:
    """A model that calls one tool after another."""

    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        said = [str(part.content) for part in returned(messages)]
        if len(said) == len(script):
            at_the_end()
            return ModelResponse([TextPart("done")])
        name, arguments = script[len(said)]
        return ModelResponse([ToolCallPart(name, arguments(said))])

    return FunctionModel(respond)


def returned(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


def toolset(searches: Searches) -> HintcellToolset[Deps]:
    return HintcellToolset(searches, lambda deps: deps.user)


def agent(searches: Searches) -> Agent[Deps, str]:
    return Agent(deps_type=Deps, toolsets=[toolset(searches)])


def run(
    searches: Searches, model: FunctionModel | TestModel, deps: Any, *, is_async: bool = False
) -> AgentRunResult[str]:
    if is_async:
        return asyncio.run(agent(searches).run("?", deps=deps, model=model))
    return agent(searches).run_sync("?", deps=deps, model=model)


def test_an_agent_searches_reads_on_and_closes(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    at_the_end: list[bool] = []
    model = scripted([SEARCHING, READING, CLOSING], lambda: at_the_end.append(sessions_become(client, principal, 0)))
    result = run(searches, model, Deps(principal), is_async=is_async)
    first, second, closing = returned(result.all_messages())
    assert ranks_in(str(first.content)) == [1, 2, 3, 4, 5]
    assert ranks_in(str(second.content)) == list(range(6, 13))
    assert closing.content == "The search is closed."
    assert at_the_end == [True]


def test_the_metadata_of_a_result_is_the_page_and_a_history_can_keep_it(searches: Searches, principal: str) -> None:
    result = run(searches, scripted([SEARCHING]), Deps(principal))
    (part,) = returned(ModelMessagesTypeAdapter.validate_json(result.all_messages_json()))
    assert [hit.rank for hit in convert(part.metadata, Results).hits] == [1, 2, 3, 4, 5]


def test_no_text_of_a_document_is_told_to_the_model(searches: Searches, principal: str) -> None:
    messages = run(searches, scripted([SEARCHING]), Deps(principal)).all_messages_json().decode()
    assert not any(document.text in messages for document in DOCUMENTS if document.text.strip())


def test_a_revoked_session_is_a_failed_tool_result_with_its_reason(
    client: Client, principal: str, is_async: bool
) -> None:
    """And costs no retry: the model may search again, as it is told to."""
    with Revoked(client, everything) as searches:
        result = run(searches, scripted([SEARCHING, READING, SEARCHING]), Deps(principal), is_async=is_async)
    first, second, third = returned(result.all_messages())
    assert [part.outcome for part in (first, second, third)] == ["success", "failed", "success"]
    assert "permission_changed" in str(second.content)
    assert "search again" in str(second.content)
    assert "\n" not in str(second.content)


def test_ended_sessions_may_be_many_in_a_run(client: Client, principal: str) -> None:
    with Revoked(client, everything) as searches:
        result = run(searches, scripted([SEARCHING, *[READING_THE_SECOND_PAGE] * 3]), Deps(principal))
    assert [part.outcome for part in returned(result.all_messages())] == ["success", *["failed"] * 3]


def test_an_unknown_cursor_asks_the_model_to_try_again(searches: Searches, principal: str) -> None:
    result = run(searches, scripted([SEARCHING, MAKING_A_CURSOR_UP, READING_THE_SECOND_PAGE]), Deps(principal))
    _, second, third = returned(result.all_messages())
    assert (second.outcome, third.outcome) == ("retried", "success")
    assert "next_cursor" in str(second.content)


@pytest.mark.parametrize("deps", [None, Deps(None), Deps(""), Deps(" ")])
def test_deps_that_name_nobody_end_the_run(searches: Searches, deps: Deps | None, is_async: bool) -> None:
    with pytest.raises(UserError, match="nobody is named|no attribute 'user'"):
        run(searches, scripted([SEARCHING]), deps, is_async=is_async)


def test_a_runs_end_leaves_no_session(client: Client, searches: Searches, principal: str, is_async: bool) -> None:
    during: list[int] = []
    model = scripted([SEARCHING, SEARCHING], lambda: during.append(open_sessions(client, principal)))
    run(searches, model, Deps(principal), is_async=is_async)
    assert during == [2]
    assert sessions_become(client, principal, 0)


def test_a_run_that_fails_leaves_no_session(client: Client, searches: Searches, principal: str, is_async: bool) -> None:
    with pytest.raises(UnexpectedModelBehavior):
        run(searches, scripted([SEARCHING, *[MAKING_A_CURSOR_UP] * 3]), Deps(principal), is_async=is_async)
    assert sessions_become(client, principal, 0)


@pytest.mark.parametrize("how", ["task", "scope", "scope, while all threads are busy"])
def test_a_run_that_is_cancelled_leaves_no_session(
    client: Client, searches: Searches, principal: str, how: str
) -> None:
    """A scope of AnyIO cancels also what a task awaits while it is being cancelled."""
    opened = asyncio.Event()
    threads_are_free = threading.Event()

    async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if returned(messages):
            assert open_sessions(client, principal) == 1
            opened.set()
            await asyncio.Event().wait()
        return ModelResponse([ToolCallPart(*_called(SEARCHING))])

    async def run_agent() -> None:
        await agent(searches).run("?", deps=Deps(principal), model=FunctionModel(respond))

    async def by_task() -> None:
        running = asyncio.ensure_future(run_agent())
        await opened.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def by_scope() -> None:
        threads = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(threads)
        async with anyio.create_task_group() as group:
            group.start_soon(run_agent)
            await opened.wait()
            if how != "scope":
                threads.submit(threads_are_free.wait, SOON_S)
            group.cancel_scope.cancel()
        threads_are_free.set()
        assert await anyio.to_thread.run_sync(sessions_become, client, principal, 0)

    asyncio.run(by_task() if how == "task" else by_scope())
    assert sessions_become(client, principal, 0)


def _called(step: Step) -> tuple[str, dict[str, Any]]:
    name, arguments = step
    return name, arguments([])


def test_a_session_that_opens_after_its_run_was_cancelled_closes(client: Client, principal: str) -> None:
    with Waiting(client) as searches:
        model = scripted([SEARCHING])
        searches.cancel_when_asked(lambda: agent(searches).run("?", deps=Deps(principal), model=model))
        assert sessions_become(client, principal, 0)


def test_a_runs_end_leaves_the_sessions_of_others(client: Client, searches: Searches, principal: str) -> None:
    """Also those of a run of the same agent for the same principal."""
    one = agent(searches)

    async def both() -> tuple[bool, bool]:
        first_has_searched, second_has_ended = asyncio.Event(), asyncio.Event()

        async def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
            said = [str(part.content) for part in returned(messages)]
            if not said:
                return ModelResponse([ToolCallPart(*_called(SEARCHING))])
            if len(said) == 1:
                first_has_searched.set()
                await second_has_ended.wait()
                return ModelResponse([ToolCallPart(MORE_RESULTS, READING[1](said))])
            return ModelResponse([TextPart("done")])

        running = asyncio.ensure_future(one.run("?", deps=Deps(principal), model=FunctionModel(respond)))
        await first_has_searched.wait()
        await one.run("?", deps=Deps(principal), model=scripted([SEARCHING]))
        one_is_left = await asyncio.to_thread(sessions_become, client, principal, 1)
        second_has_ended.set()
        parts = returned((await running).all_messages())
        return one_is_left, parts[1].outcome == "success"

    assert asyncio.run(both()) == (True, True)
    assert sessions_become(client, principal, 0)


def test_a_search_of_one_identity_does_not_exist_for_another(searches: Searches, principal: str) -> None:
    page = searches.search(principal, QUERY, limit=5)
    stolen: list[Step] = [
        (MORE_RESULTS, lambda _: {"session": page.session, "cursor": page.next_cursor}),
        (CLOSE_SEARCH, lambda _: {"session": page.session}),
    ]
    reading, closing = returned(run(searches, scripted(stolen), Deps("mallory")).all_messages())
    assert reading.outcome == "failed"
    assert "there is no such search" in str(reading.content)
    assert closing.content == "There was no such search open."


def test_the_frameworks_test_model_can_call_every_tool(client: Client, searches: Searches, principal: str) -> None:
    """It makes arguments up from the schemas; that handles are made up as well is told to it."""
    model = TestModel(call_tools=[SEARCH_CODE, CLOSE_SEARCH])
    searching, closing = returned(run(searches, model, Deps(principal)).all_messages())
    assert searching.outcome == "success"
    assert closing.content == "There was no such search open."
    assert sessions_become(client, principal, 0)


def test_a_toolset_can_be_wrapped_and_still_ends_with_its_run(
    client: Client, searches: Searches, principal: str
) -> None:
    prefixed = Agent(deps_type=Deps, toolsets=[toolset(searches).prefixed("api")])
    name, arguments = SEARCHING
    result = prefixed.run_sync("?", deps=Deps(principal), model=scripted([(f"api_{name}", arguments)]))
    assert [part.outcome for part in returned(result.all_messages())] == ["success"]
    assert sessions_become(client, principal, 0)


def test_a_toolset_that_runs_share_works_in_each_and_ends_with_the_last(
    client: Client, searches: Searches, principal: str
) -> None:
    """A dynamic toolset is given no instance for its run."""
    shared = toolset(searches)
    dynamic = Agent(deps_type=Deps, toolsets=[DynamicToolset(lambda _: shared)])

    async def run_one(model: FunctionModel) -> list[str]:
        result = await dynamic.run("?", deps=Deps(principal), model=model)
        return [part.outcome for part in returned(result.all_messages())]

    async def one_after_another() -> list[list[str]]:
        return [await run_one(scripted([SEARCHING, READING])) for _ in range(2)]

    assert asyncio.run(one_after_another()) == [["success", "success"]] * 2
    assert sessions_become(client, principal, 0)

    async def together() -> list[list[str]]:
        return await asyncio.gather(*(run_one(scripted([SEARCHING, *[READING] * reads])) for reads in (0, 5)))

    assert asyncio.run(together()) == [["success"], ["success"] * 6]
    assert sessions_become(client, principal, 0)
