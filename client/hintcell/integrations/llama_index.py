"""LlamaIndex: a retriever (`pip install 'hintcell[llama-index]'`). The framework loads NumPy; hintcell does not."""

import asyncio
from collections.abc import Sequence

from llama_index.core.callbacks import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from hintcell.integrations import calls
from hintcell.searches import Searches

__all__ = ["HintcellRetriever"]

# A model that answers from a node is told where it stands, and not how it was found.
_NOT_FOR_MODELS = ["id", "rank", "score", "snapshot_id"]


class HintcellRetriever(BaseRetriever):
    """The best `k` documents that a principal may read, as text nodes with their scores.

    Every retrieval is one search, over what may be read at that moment; its session is closed when the nodes are
    returned. Fewer than `k` come only if there are no more; those that match nothing come last, with score 0. If
    permissions change on the way, SearchFailed says so, and no node is returned.
    """

    def __init__(
        self,
        searches: Searches,
        principal: str,
        *,
        globs: Sequence[str] = (),
        k: int = 10,
        callback_manager: CallbackManager | None = None,
        verbose: bool = False,
    ) -> None:
        """Search as one principal; queries of another one need another retriever.

        Args:
            searches: where to search; stays yours to close.
            principal: who asks.
            globs: patterns of files to narrow to.
            k: how many nodes.
            callback_manager: the framework's.
            verbose: the framework's.

        Raises:
            ValueError: nobody is named, or `k` is no number of nodes.
        """
        self._searches = searches
        self._principal = calls.named(principal, "give a principal")
        self._globs = tuple(globs)
        calls.check_k(k)
        self._k = k
        super().__init__(callback_manager=callback_manager, verbose=verbose)  # pyright: ignore[reportUnknownMemberType]: `Dict`

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            _node(found)
            for found in calls.best(self._searches, self._principal, query_bundle.query_str, self._globs, self._k)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(found: calls.Found) -> NodeWithScore:
    node = TextNode(
        id_=found.hit.id,
        text=found.text,
        metadata=found.metadata(),
        excluded_embed_metadata_keys=_NOT_FOR_MODELS,
        excluded_llm_metadata_keys=_NOT_FOR_MODELS,
    )
    return NodeWithScore(node=node, score=found.hit.score)
