"""What an agent sees: three tools, what they say about themselves, and every failure as one line that says what to do.

The texts are written for a model. No failure shows a traceback, what a library says about arguments, or the text of
an error that nobody foresaw: it could hold a query or a path.
"""

import functools
import os.path
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Final, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from hintcell.integrations.mcp.calls import calling, current_call
from hintcell.integrations.mcp.lines import Read, hand_on
from hintcell.integrations.mcp.pages import Pages, SearchPage, Source
from hintcell.searches import SearchFailed

DEFAULT_LIMIT: Final = 20
MAX_LIMIT: Final = 100
# Threads that read the folder take turns, and more of them would keep the event loop from its turn, for seconds even
# from hearing that a call is cancelled. Other calls wait for their turn in the event loop.
_SEARCHES_AT_ONCE: Final = 4
# More globs than that are no narrowing.
MAX_GLOBS: Final = 64

_INSTRUCTIONS: Final = """\
Ranked search over the code and documents below {folder}, as far as its user may read them. search_code says where to \
look (path, line, name), best first, never what stands there: read the files with your own tools. more_results gives \
the next page of a search, close_search ends one. When a search has ended, search again."""

_SEARCH_CODE: Final = """\
Find functions, methods and sections of documents for a few words or a question, ranked by how well their words match \
(BM25). Use words that stand in the code: names, words of comments and messages.

Returns places, best first: path, line and name, never any text. Paths are relative to {folder}; read a file at its \
line with your own tools. The name (rest) is what a file has outside its functions, (file) all of it. A score of 0 \
means that no word of the query occurs there. The result has a session and, if there is more, a next_cursor: pass both \
to more_results. Every search reads the folder anew, with its latest edits."""

_MORE_RESULTS: Final = """\
The next page of an earlier search: pass its session and the next_cursor of any of its pages. The ranking is that of \
the moment of the search. When the search has ended, as when permissions changed or it was not used for long, the \
error says so: search again with search_code."""

_CLOSE_SEARCH: Final = """\
End a search that you have read enough of; this frees its memory. Searches that are not closed end by themselves."""

_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)

_Session = Annotated[str, Field(description="The session of a result of search_code.", max_length=256)]
_Limit = Annotated[int, Field(description="Hits in the page, at most.", ge=1, le=MAX_LIMIT)]

Answer = TypeVar("Answer")


class Closed(BaseModel):
    """What became of a search that was to be closed."""

    closed: Annotated[bool, Field(description="False if it was over already.")]


class SearchServer(MCPServer[Any]):
    """The server; which transport it has is the business of `serve`."""

    def __init__(self, source: Source, *, folder: str, token_budget: int | None = None) -> None:
        """Serve searches.

        Args:
            source: makes searches and reads them on, from any thread.
            folder: what paths are relative to, as the agent shall be told.
            token_budget: how many tokens a page may have, by the estimate of `pages`; None is no limit.
        """
        self.input_ended = threading.Event()
        tools = _Tools(source, Pages(source, token_budget))
        super().__init__(
            "hintcell",
            title="hintcell",
            instructions=_INSTRUCTIONS.format(folder=folder),
            version=version("hintcell"),
            tools=[
                _tool(tools.search_code, "Search code", _SEARCH_CODE.format(folder=folder)),
                _tool(tools.more_results, "More results of a search", _MORE_RESULTS),
                _tool(tools.close_search, "Close a search", _CLOSE_SEARCH),
            ],
            log_level="CRITICAL",  # The library logs messages of errors, and what peers send.
            subscriptions=False,
        )

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; what the library says about a failure is put into one line."""
        known = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        if name not in known:
            return _failure(f"there is no such tool: use one of {', '.join(known)}")
        if not arguments.keys() <= known[name].keys():  # Else a misspelt one would be passed over.
            return _failure(f"an argument is not known: {name} takes {', '.join(known[name])}")
        async with calling(context):
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                return _failure(_told(error.__cause__ or error))

    async def run_stdio_async(self) -> None:
        """As the SDK's own, but requests that it cannot read are answered as well; sets `input_ended`."""

        async def read_to_the_end() -> None:
            await hand_on(read, sending, answers)
            self.input_ended.set()

        sending, receiving = anyio.create_memory_object_stream[Read]()
        async with stdio_server() as (read, answers), anyio.create_task_group() as handing_on:
            handing_on.start_soon(read_to_the_end)
            options = self._lowlevel_server.create_initialization_options()
            await self._lowlevel_server.run(receiving, answers, options)
            handing_on.cancel_scope.cancel()


class _Tools:
    """The three functions; the SDK takes the schemas from their signatures."""

    def __init__(self, source: Source, pages: Pages) -> None:
        self._source = source
        self._pages = pages
        self._searching = anyio.CapacityLimiter(_SEARCHES_AT_ONCE)

    async def search_code(
        self,
        query: Annotated[str, Field(description="Words to look for, or a question; at most 8,192 bytes.")],
        globs: Annotated[
            list[Annotated[str, Field(max_length=1024)]],
            Field(
                description="Search only files that match one of these .gitignore-style patterns, such as src/**/*.py."
                " With ! in front, not those; the last that matches decides. None: all files.",
                max_length=MAX_GLOBS,
            ),
        ] = [],  # noqa: B006 - for the schema; nobody changes it
        limit: _Limit = DEFAULT_LIMIT,
    ) -> Annotated[CallToolResult, SearchPage]:
        call = current_call()

        def search() -> SearchPage:
            page = self._pages.search(query, globs, limit)
            call.or_else(functools.partial(self._source.close_search, page.session))
            return page

        return await _page(search, self._searching)

    async def more_results(
        self,
        session: _Session,
        cursor: Annotated[str, Field(description="The next_cursor of a page of that search.", max_length=256)],
        limit: _Limit = DEFAULT_LIMIT,
    ) -> Annotated[CallToolResult, SearchPage]:
        return await _page(functools.partial(self._pages.read, session, cursor, limit))

    async def close_search(self, session: _Session) -> Annotated[CallToolResult, Closed]:
        closed = await _in_thread(functools.partial(self._source.close_search, session))
        return _success(Closed(closed=closed), "closed" if closed else "there is no such search any more")


def _tool(function: Callable[..., Any], title: str, description: str) -> Tool:
    tool = Tool.from_function(function, title=title, description=description, annotations=_READ_ONLY)
    tool.parameters["additionalProperties"] = False
    return tool


async def _page(page: Callable[[], SearchPage], limiter: anyio.CapacityLimiter | None = None) -> CallToolResult:
    try:
        found = await _in_thread(page, limiter)
    except SearchFailed as error:
        return _failure(str(error))
    return _success(found, found.as_text())


async def _in_thread(call: Callable[[], Answer], limiter: anyio.CapacityLimiter | None = None) -> Answer:
    """What the call returns; one that nobody waits for any more is left to end by itself, as each of its waits does."""
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)


def _success(structured: BaseModel, text: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured.model_dump(mode="json")
    )


def _failure(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=" ".join(message.split()))], is_error=True)


def _told(error: BaseException) -> str:
    """One line about a call that did not come to an answer, without any value of the caller's."""
    if isinstance(error, ValidationError):
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        return f"{'; '.join(faults[:4])}: correct the arguments and call again"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else "an unknown place"
    return f"internal error, please report it: {type(error).__name__} at {where}"
