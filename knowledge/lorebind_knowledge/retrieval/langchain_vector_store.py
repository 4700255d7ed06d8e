"""A knowledge base as a read-only LangChain `VectorStore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_config.errors import UsageError
from lorebind_knowledge.collection import LorebindVectorStore
from lorebind_knowledge.retrieval.search import check_embedder, not_ingested

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.embedders.base import Embedder
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

T = TypeVar("T")


class KnowledgeBaseVectorStore(LorebindVectorStore):
    """The passages of a knowledge base, nearest first, for any code that takes a `VectorStore`.

    It searches by vectors only and ignores the knowledge base's `retrieval`; use a retriever to
    apply that. Documents have the metadata of their passages: `kb_id`, `uri`, `title`, the span.
    Adding and deleting raise UsageError, since an ingest mirrors the sources into the index.
    """

    def __init__(self, index: Index, find: Callable[[], IndexedKnowledgeBase]) -> None:
        """
        Args:
            index: the index of the knowledge base.
            find: returns the knowledge base for the tenant of each search.
        """
        self._index, self._find = index, find

    @property
    def _kb(self) -> IndexedKnowledgeBase:
        return self._find()

    @property
    def _embedder(self) -> Embedder:
        return self._kb.embedder

    @property
    def _namespace(self) -> Namespace:
        return self._kb.namespace

    def _without_index(self, nothing: T) -> T:
        raise not_ingested(self._kb)

    def _check(self, entry: IndexEntry) -> None:
        check_embedder(self._kb, entry)

    def _check_writable(self) -> None:
        raise UsageError(
            f"the documents of knowledge base {self._kb.id!r} come from its sources, and an "
            "ingest would remove any others; add to the sources, or use a collection"
        )
