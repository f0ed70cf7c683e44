"""LangChain: a retriever, and tools with content and artifact (`pip install 'hintcell[langchain]'`).

Who asks is fixed when they are made, or read from each call's configuration: `{"configurable": {"user_id": "alice"}}`.
A fixed one cannot be changed by a call, and nobody is nobody: without a name the call is an error.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import Field, ValidationError, field_validator

from hintcell.integrations import calls, wording
from hintcell.integrations.parameters import ALL_FILES, Cursor, Globs, Limit, Query, SessionHandle
from hintcell.searches import Results, Searches, SearchFailed

__all__ = ["HintcellRetriever", "Principal", "search_tools"]

USER_ID: Final = "user_id"

Principal = str | Callable[[RunnableConfig], str | None] | None
"""Who asks: a name, or a function of a call's configuration that names it, or None for its `configurable`'s user_id.

What knows a call by other ways, such as LangGraph's `get_runtime`, may be asked in such a function too.
"""


class HintcellRetriever(BaseRetriever):
    """The best `k` documents that a principal may read, each with its text.

    Every retrieval is one search, over what may be read at that moment; its session is closed when the documents are
    returned. Fewer than `k` come only if there are no more; those that match nothing come last, with score 0. If
    permissions change on the way, SearchFailed says so, and no document is returned.

    Attributes:
        searches: where to search; stays yours to close.
        principal: who asks; see `Principal`.
        globs: patterns of files to narrow to.
        k: how many documents.
    """

    searches: Searches = Field(repr=False, exclude=True)
    principal: Principal = None
    globs: list[str] = Field(default_factory=list[str])
    k: int = Field(default=10, ge=1)

    @field_validator("principal")
    @classmethod
    def _check_principal(cls, principal: Principal) -> Principal:
        return _checked(principal)

    # The framework hands its configuration to these two, and not to what they call.

    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """As BaseRetriever.invoke. Raises ValueError if nobody is named, SearchFailed if the search failed."""
        return super().invoke(input, config, **kwargs, who=self._who(config))

    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:  # noqa: A002
        """As `invoke`, for asyncio."""
        return await super().ainvoke(input, config, **kwargs, who=self._who(config))

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
        who: str | None = None,
        **_: Any,
    ) -> list[Document]:
        return self._documents(query, who or self._who(None))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
        who: str | None = None,
        **_: Any,
    ) -> list[Document]:
        return await asyncio.to_thread(self._documents, query, who or self._who(None))

    def _documents(self, query: str, who: str) -> list[Document]:
        return [
            Document(id=found.hit.id, page_content=found.text, metadata=found.metadata())
            for found in calls.best(self.searches, who, query, self.globs, self.k)
        ]

    def _who(self, config: RunnableConfig | None) -> str:
        return _who(self.principal, ensure_config(config))


def search_tools(searches: Searches, *, principal: Principal = None) -> list[BaseTool]:
    """The tools `search_code`, `more_results` and `close_search`, each for sync and async agents.

    The content of a result is lines for the model, the artifact the page for the application: the fields of
    `hintcell.searches.Results` as a dictionary, which checkpointers can keep. A failure is a tool message with status
    `error` that says why. Searches stay open after a run, for the conversation's next turn, until the model, you
    (`searches.close()`), their number or the manager's idle timeout ends them.

    Args:
        searches: where to search; stays yours to close.
        principal: who asks; see `Principal`. If nobody is named, the call raises ValueError, which no model can mend.
    """
    principal = _checked(principal)

    def who(config: RunnableConfig) -> str:
        return _who(principal, config)

    def search_code(
        config: RunnableConfig, query: Query, globs: Globs = ALL_FILES, limit: Limit = wording.DEFAULT_LIMIT
    ) -> _Answer:
        return _answer(lambda: searches.search(who(config), query, globs=globs, limit=limit))

    async def asearch_code(
        config: RunnableConfig, query: Query, globs: Globs = ALL_FILES, limit: Limit = wording.DEFAULT_LIMIT
    ) -> _Answer:
        try:
            return _page(await calls.search(searches, who(config), query, globs, limit))
        except SearchFailed as error:
            raise ToolException(str(error)) from error

    def more_results(
        config: RunnableConfig, session: SessionHandle, cursor: Cursor, limit: Limit = wording.DEFAULT_LIMIT
    ) -> _Answer:
        return _answer(lambda: searches.read(who(config), session, cursor, limit=limit))

    async def amore_results(
        config: RunnableConfig, session: SessionHandle, cursor: Cursor, limit: Limit = wording.DEFAULT_LIMIT
    ) -> _Answer:
        return await asyncio.to_thread(more_results, config, session, cursor, limit)

    def close_search(config: RunnableConfig, session: SessionHandle) -> tuple[str, None]:
        return wording.closed(searches.close_search(who(config), session)), None

    async def aclose_search(config: RunnableConfig, session: SessionHandle) -> tuple[str, None]:
        return await asyncio.to_thread(close_search, config, session)

    return [
        _tool(wording.SEARCH_CODE, search_code, asearch_code),
        _tool(wording.MORE_RESULTS, more_results, amore_results),
        _tool(wording.CLOSE_SEARCH, close_search, aclose_search),
    ]


_Answer = tuple[str, dict[str, Any]]


def _tool(name: str, function: Callable[..., Any], coroutine: Callable[..., Awaitable[Any]]) -> BaseTool:
    return StructuredTool.from_function(
        function,
        coroutine,
        name=name,
        description=wording.DESCRIPTIONS[name],
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_invalid,
    )


def _answer(ask: Callable[[], Results]) -> _Answer:
    try:
        return _page(ask())
    except SearchFailed as error:
        raise ToolException(str(error)) from error


def _page(results: Results) -> _Answer:
    return wording.in_lines(results), calls.as_data(results)


def _invalid(error: ValidationError) -> str:
    """Which arguments are wrong, without what was given."""
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())


def _checked(principal: Principal) -> Principal:
    """Raise ValueError for a name that is none."""
    if isinstance(principal, str):
        calls.named(principal, "give a principal, or none to take it from the configuration")
    return principal


def _who(principal: Principal, config: RunnableConfig) -> str:
    if isinstance(principal, str):
        return principal
    if principal is not None:
        return calls.named(principal(config), "let principal name who the call is for")
    return calls.named(
        config.get("configurable", {}).get(USER_ID),
        f'give a principal, or call with {{"configurable": {{"{USER_ID}": …}}}}',
    )
