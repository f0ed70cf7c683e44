"""OpenAI Agents: function tools for whoever the run's context names (`pip install 'hintcell[openai-agents]'`)."""

import asyncio
from collections.abc import Callable
from typing import Any

from agents import FunctionTool, RunContextWrapper, UserError, default_tool_error_function, function_tool
from agents.exceptions import ModelBehaviorError

from hintcell.integrations import calls, wording
from hintcell.integrations.parameters import Cursor, Globs, Limit, Query, SessionHandle
from hintcell.searches import Searches, SearchFailed

__all__ = ["PrincipalOf", "search_tools"]

PrincipalOf = Callable[[Any], str | None]
"""Given the run's context, who asks."""


def search_tools(searches: Searches, principal_of: PrincipalOf) -> list[FunctionTool]:
    """The tools `search_code`, `more_results` and `close_search`.

    A failure is the tool's output and says why; a search of one principal does not exist for another. Searches stay
    open after a run, for the conversation's next turn, until the model, you (`searches.close()`), their number or the
    manager's idle timeout ends them.

    Args:
        searches: where to search; stays yours to close.
        principal_of: who asks, given the context that was given to the run, such as `lambda context: context.user`.
            If it names nobody or fails, the run ends with UserError: no model can mend that.
    """

    def who(context: RunContextWrapper[Any]) -> str:
        try:
            return calls.named(principal_of(context.context), "let principal_of name who the run's context is for")
        except Exception as error:
            raise UserError(str(error)) from error

    # No defaults: the SDK's strict schemas, which make models keep to them, have every parameter given.

    async def search_code(context: RunContextWrapper[Any], query: Query, globs: Globs, limit: Limit) -> str:
        return wording.in_lines(await calls.search(searches, who(context), query, globs, limit))

    async def more_results(
        context: RunContextWrapper[Any], session: SessionHandle, cursor: Cursor, limit: Limit
    ) -> str:
        return wording.in_lines(await asyncio.to_thread(searches.read, who(context), session, cursor, limit=limit))

    async def close_search(context: RunContextWrapper[Any], session: SessionHandle) -> str:
        return wording.closed(await asyncio.to_thread(searches.close_search, who(context), session))

    return [
        function_tool(
            function,
            name_override=name,
            description_override=wording.DESCRIPTIONS[name],
            failure_error_function=_failure,
        )
        for name, function in (
            (wording.SEARCH_CODE, search_code),
            (wording.MORE_RESULTS, more_results),
            (wording.CLOSE_SEARCH, close_search),
        )
    ]


def _failure(context: RunContextWrapper[Any], error: Exception) -> str:
    """What the model is told of a failed call.

    Raises:
        UserError: the application must mend it.
    """
    if isinstance(error, UserError):
        raise error
    if isinstance(error, SearchFailed | ModelBehaviorError):  # The latter: arguments that do not fit the schema.
        return str(error)
    return default_tool_error_function(context, error)
