"""Pydantic-AI: a toolset whose searches last as long as a run (`pip install 'hintcell[pydantic-ai]'`)."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

from pydantic_ai import FunctionToolset, ModelRetry, RunContext, ToolFailed, ToolReturn, UserError
from pydantic_ai.tools import AgentDepsT

from hintcell.integrations import calls, wording
from hintcell.integrations.parameters import ALL_FILES, Cursor, Globs, Limit, Query, SessionHandle
from hintcell.searches import Results, Searches, SearchFailed

__all__ = ["HintcellToolset"]


class HintcellToolset(FunctionToolset[AgentDepsT]):
    """The tools `search_code`, `more_results` and `close_search`.

    What a run has opened is closed when the run ends, also if it fails or is cancelled. The return value of a tool is
    lines for the model, its metadata the page for the application: the fields of `hintcell.searches.Results` as a
    dictionary, which a message history can keep.

    A wrong argument, such as an unknown cursor, is a ModelRetry. A search that has ended, or that cannot be done, is
    a ToolFailed: the model reads why and searches again, and no retry is used up.
    """

    def __init__(
        self,
        searches: Searches,
        principal_of: Callable[[AgentDepsT], str | None],
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        """Search as whoever a run's dependencies name.

        Args:
            searches: where to search; stays yours to close.
            principal_of: who asks, given the run's `deps`, such as `lambda deps: deps.user`. If it names nobody or
                fails, the run ends with UserError: no model can mend that.
            id: the framework's, for durable execution.
        """
        self._searches = searches
        self._principal_of = principal_of
        self._opened = calls.Opened(searches)
        self._times_entered = 0
        super().__init__(id=id)
        described = wording.DESCRIPTIONS
        name = wording.SEARCH_CODE
        self.add_function(self._search_code, takes_ctx=True, name=name, description=described[name])
        name = wording.MORE_RESULTS
        self.add_function(self._more_results, takes_ctx=True, name=name, description=described[name])
        name = wording.CLOSE_SEARCH
        self.add_function(self._close_search, takes_ctx=True, name=name, description=described[name])

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> "HintcellToolset[AgentDepsT]":  # noqa: ARG002
        """A toolset for this run alone."""
        return HintcellToolset(self._searches, self._principal_of, id=self.id)

    async def __aenter__(self) -> Self:
        # Only a run that was not given a toolset of its own shares one, with others or with one after another.
        if self._times_entered == 0:
            self._opened = calls.Opened(self._searches)
        self._times_entered += 1
        return self

    async def __aexit__(self, *args: Any) -> None:
        self._times_entered -= 1
        if self._times_entered > 0:
            return
        # In a thread, as a page that is being read is waited for. Who is cancelled again stops waiting, no more.
        await asyncio.shield(asyncio.to_thread(self._opened.end))

    async def _search_code(
        self, ctx: RunContext[AgentDepsT], query: Query, globs: Globs = ALL_FILES, limit: Limit = wording.DEFAULT_LIMIT
    ) -> ToolReturn:
        return await self._page(self._opened.search, self._who(ctx), query, globs, limit)

    async def _more_results(
        self,
        ctx: RunContext[AgentDepsT],
        session: SessionHandle,
        cursor: Cursor,
        limit: Limit = wording.DEFAULT_LIMIT,
    ) -> ToolReturn:
        return await self._page(self._searches.read, self._who(ctx), session, cursor, limit=limit)

    async def _close_search(self, ctx: RunContext[AgentDepsT], session: SessionHandle) -> str:
        return wording.closed(await asyncio.to_thread(self._opened.close_search, self._who(ctx), session))

    async def _page(self, ask: Callable[..., Results], *arguments: Any, **options: Any) -> ToolReturn:
        try:
            results = await asyncio.to_thread(ask, *arguments, **options)
        except SearchFailed as error:
            if error.reason == "bad_argument":
                raise ModelRetry(str(error)) from error
            raise ToolFailed(str(error)) from error
        return ToolReturn(wording.in_lines(results), metadata=calls.as_data(results))

    def _who(self, ctx: RunContext[AgentDepsT]) -> str:
        try:
            return calls.named(self._principal_of(ctx.deps), "let principal_of name who the run's deps are for")
        except Exception as error:
            raise UserError(str(error)) from error
