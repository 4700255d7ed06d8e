"""A knowledge base as LangChain's `VectorStore`: to be searched, not written."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.retrieval.search import index_in_use
from lorebind_knowledge.stores.face import LorebindVectorStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.namespace import IndexKey

T = TypeVar("T")


class KnowledgeBaseVectorStore(LorebindVectorStore):
    """The passages of a knowledge base, nearest first, for any code that takes a `VectorStore`.

    It searches by vectors alone, whatever the knowledge base's `retrieval` says; a retriever does
    what that says. Documents come with the metadata of their passages: `kb_id`, `uri`, `title`, the
    span. Adding and deleting raises UsageError: an ingest makes the index what the sources hold.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        super().__init__(kb.store, kb.embedder, kb.namespace)
        self._kb = kb

    async def _asked(self, ask: Callable[[IndexKey], Awaitable[T]]) -> T:
        key = (await index_in_use(self._kb)).key
        try:
            return await ask(key)
        except StoreError:
            # A reindex may have put a successor in its place between the two calls.
            successor = (await index_in_use(self._kb)).key
            if successor == key:
                raise
            return await ask(successor)

    async def _to_write(self) -> IndexKey:
        raise UsageError(
            f"the documents of knowledge base {self._kb.id!r} are those of its sources, and an "
            "ingest would remove any other; add to the sources, or use a collection"
        )
