"""The bound knowledge bases as a LangChain retriever, and each search as a LangChain run."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.config import ensure_config, get_async_callback_manager_for_config
from pydantic import Field, SkipValidation

from lorebind_bindings.resolver import override
from lorebind_bindings.retrieving import retrieve
from lorebind_knowledge.plumbing.bridge import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.retrieving import BoundResult
    from lorebind_knowledge.records import DocumentMatch, QueryResult
    from lorebind_knowledge.service import KnowledgeService


class LorebindRetriever(BaseRetriever):
    """Searches the bound knowledge bases and returns the passages of all of them, best first.

    Each document has its id, and in its metadata `score`, `relevance`, `scores`, `kb_id`, `uri`,
    `title`, the span (`start`, `end`, `line_start`, `line_end`), and `verdict`, which is `weak` if
    even the best passage probably does not answer the question. Passages that a model would not be
    given, such as fewer than `min_results`, are not returned either.
    """

    service: SkipValidation[Any] = Field(exclude=True, repr=False)
    """The project's knowledge, a `KnowledgeService`."""
    bindings: SkipValidation[Any] = Field(exclude=True, repr=False)
    """The `ResolvedBinding`s to search."""
    k: int | None = None
    """Maximum number of documents to return, used instead of `top_k`; None means `top_k`."""
    strategy: str | None = None
    """Overrides the strategy of the bindings."""
    min_score: float | None = None
    """Overrides the `min_score` of the bindings."""
    filters: dict[str, Any] | None = None
    """Overrides the filters of the bindings."""

    def __init__(
        self, service: KnowledgeService, bindings: Sequence[ResolvedBinding], **fields: Any
    ) -> None:
        super().__init__(service=service, bindings=list(bindings), **fields)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return run(self._search(query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._search(query, k)

    async def _search(self, query: str, k: int | None) -> list[Document]:
        limit = k if k is not None else self.k
        bindings = [
            override(
                binding,
                top_k=limit,
                strategy=self.strategy,
                min_score=self.min_score,
                filters=self.filters,
            )
            for binding in self.bindings
        ]
        results = await retrieve(self.service, bindings, query)
        matches = [
            (-match.ordering, match.id, document_of(match, result.result))
            for result in results
            if result.is_given
            for match in result.result
        ]
        return [document for *_, document in sorted(matches, key=itemgetter(0, 1))[:limit]]


def document_of(match: DocumentMatch, result: QueryResult) -> Document:
    """Convert a search result into a LangChain document."""
    metadata = {
        **match.metadata,
        "score": match.score,
        "relevance": match.relevance,
        "scores": dict(match.scores),
        "verdict": result.verdict,
    }
    return Document(page_content=match.text, metadata=metadata, id=match.id)


async def traced_retrieve(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    question: str,
    config: RunnableConfig | None,
    history: Sequence[BaseMessage] = (),
) -> list[BoundResult]:
    """Call `retrieve` as a run of type `retriever`, if there is something to search.

    Args:
        service, bindings, question, history: see `retrieve`.
        config: its callbacks are notified; None means the config of the surrounding run, if any.
    """
    if not bindings:
        return await retrieve(service, bindings, question)
    manager = get_async_callback_manager_for_config(ensure_config(config))
    ids = [binding.id for binding in bindings]
    callbacks = await manager.on_retriever_start(
        {"name": "Lorebind"}, question, name=", ".join(ids)
    )
    try:
        results = await retrieve(
            service, bindings, question, history, {"callbacks": callbacks.get_child()}
        )
    except BaseException as error:
        await callbacks.on_retriever_error(error)
        raise
    await callbacks.on_retriever_end(
        [document_of(match, result.result) for result in results for match in result.result]
    )
    return results
