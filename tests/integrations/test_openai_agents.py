"""The OpenAI Agents adapter under the SDK's own Runner, with its scripted model."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, RunResult, ToolCallOutputItem, UserError
from agents.items import ModelResponse, TResponseInputItem, TResponseOutputItem
from agents.models.interface import Model
from agents.testing import assistant_message, function_call
from agents.usage import Usage
from msgspec import Struct

from hintcell import Client
from hintcell.integrations.openai_agents import search_tools
from hintcell.integrations.wording import SEARCH_CODE
from hintcell.searches import Searches, Snapshot
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

pytestmark = pytest.mark.usefixtures("loop")


class Context(Struct):
    """What an application gives to a run."""

    user: str | None


class Scripted(Model):
    """A model that calls one tool after another; unlike the SDK's own, it reads what they say."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.script = script

    async def get_response(self, *_: Any, **asked: Any) -> ModelResponse:
        said = [str(item["output"]) for item in _items(asked["input"]) if item.get("type") == "function_call_output"]
        if len(said) == len(self.script):
            return _response(assistant_message("done"))
        name, arguments = self.script[len(said)]
        return _response(function_call(name, arguments(said), call_id=f"call {len(said)}"))

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def _items(given: str | list[TResponseInputItem]) -> list[Any]:
    return [] if isinstance(given, str) else list(given)


def _response(item: TResponseOutputItem) -> ModelResponse:
    return ModelResponse(output=[item], usage=Usage(), response_id=None)


def _user(context: Context) -> str | None:
    return context.user


def run(
    searches: Searches,
    script: Sequence[Step],
    context: Context | None,
    *,
    is_async: bool = False,
    given: list[TResponseInputItem] | None = None,
) -> RunResult:
    agent = Agent[Context](name="newcomer", model=Scripted(script), tools=[*search_tools(searches, _user)])
    question = given or "Where is the configuration read?"
    config = RunConfig(tracing_disabled=True)
    if is_async:
        return asyncio.run(Runner.run(agent, question, context=context, run_config=config))
    return Runner.run_sync(agent, question, context=context, run_config=config)


def outputs(result: RunResult) -> list[str]:
    return [str(item.output) for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def test_an_agent_searches_reads_on_and_closes(
    client: Client, searches: Searches, principal: str, is_async: bool
) -> None:
    result = run(searches, [SEARCHING, READING, CLOSING], Context(principal), is_async=is_async)
    first, second, closing = outputs(result)
    assert result.final_output == "done"
    assert ranks_in(first) == [1, 2, 3, 4, 5]
    assert ranks_in(second) == list(range(6, 13))
    assert closing == "The search is closed."
    assert sessions_become(client, principal, 0)


def test_no_text_of_a_document_is_told_to_the_model(searches: Searches, principal: str) -> None:
    (lines,) = outputs(run(searches, [SEARCHING], Context(principal)))
    assert not any(document.text in lines for document in DOCUMENTS if document.text.strip())


def test_a_revoked_session_is_the_tools_error_text_with_its_reason(
    client: Client, principal: str, is_async: bool
) -> None:
    with Revoked(client, everything) as searches:
        _, second = outputs(run(searches, [SEARCHING, READING], Context(principal), is_async=is_async))
    assert "permission_changed" in second
    assert "search again" in second
    assert "\n" not in second


def test_an_unknown_cursor_is_an_error_text_and_ends_nothing(searches: Searches, principal: str) -> None:
    _, second, third = outputs(
        run(searches, [SEARCHING, MAKING_A_CURSOR_UP, READING_THE_SECOND_PAGE], Context(principal))
    )
    assert "next_cursor" in second
    assert ranks_in(third) == list(range(6, 13))


@pytest.mark.parametrize("arguments", ["not JSON", {"query": "q", "globs": [], "limit": 0}])
def test_arguments_that_do_not_fit_are_an_error_text(
    searches: Searches, principal: str, arguments: dict[str, Any] | str
) -> None:
    (said,) = outputs(run(searches, [(SEARCH_CODE, lambda _: arguments)], Context(principal)))
    assert said.startswith("Invalid JSON input for tool search_code")


@pytest.mark.parametrize("context", [None, Context(None), Context(""), Context(" ")])
def test_a_context_that_names_nobody_ends_the_run(searches: Searches, context: Context | None, is_async: bool) -> None:
    with pytest.raises(UserError, match="nobody is named|no attribute 'user'"):
        run(searches, [SEARCHING], context, is_async=is_async)


def test_a_search_of_one_identity_does_not_exist_for_another(
    client: Client, searches: Searches, principal: str
) -> None:
    (said,) = outputs(run(searches, [SEARCHING], Context(principal)))
    reading, closing = outputs(run(searches, stealing(said), Context("mallory")))
    assert "there is no such search" in reading
    assert closing == "There was no such search open."
    assert open_sessions(client, principal) == 1


def test_the_next_turn_of_a_conversation_reads_on(searches: Searches, principal: str) -> None:
    turn = run(searches, [SEARCHING], Context(principal))
    given: list[TResponseInputItem] = [*turn.to_input_list(), {"role": "user", "content": "And what else?"}]
    (second,) = outputs(run(searches, [SEARCHING, READING], Context(principal), given=given))
    assert ranks_in(second) == list(range(6, 13))


def test_searches_that_were_made_for_a_run_end_with_it(client: Client, principal: str) -> None:
    with Searches(client, everything) as searches:
        run(searches, [SEARCHING], Context(principal))
        assert open_sessions(client, principal) == 1
    assert sessions_become(client, principal, 0)


def test_a_failure_that_is_nobodys_to_know_is_told_without_its_words(
    client: Client, principal: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_who: str, _globs: Sequence[str]) -> Snapshot:
        raise RuntimeError("secret")

    with caplog.at_level(logging.DEBUG), Searches(client, broken) as searches:
        (said,) = outputs(run(searches, [SEARCHING], Context(principal)))
    assert "error occurred" in said
    assert "secret" not in said
    assert "secret" not in caplog.text
    assert QUERY not in caplog.text


def test_a_cancelled_run_leaves_no_session_that_nobody_knows_of(client: Client, principal: str) -> None:
    with Waiting(client) as searches:
        agent = Agent[Context](name="newcomer", model=Scripted([SEARCHING]), tools=[*search_tools(searches, _user)])
        config = RunConfig(tracing_disabled=True)
        searches.cancel_when_asked(lambda: Runner.run(agent, "?", context=Context(principal), run_config=config))
        assert sessions_become(client, principal, 0)
