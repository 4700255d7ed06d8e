"""A knowledge base as a read-only LangChain `VectorStore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lorebind_knowledge.collection.langchain_vector_store import LorebindVectorStore
from lorebind_knowledge.errors import NotIngestedError, UsageError
from lorebind_knowledge.retrieval.search import check_embedder, not_ingested

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.knowledge_base import KnowledgeBase

T = TypeVar("T")


class KnowledgeBaseVectorStore(LorebindVectorStore):
    """The passages of a knowledge base, nearest first, for any code that takes a `VectorStore`.

    It searches by vectors only and ignores the knowledge base's `retrieval`; use a retriever to
    apply that. Documents have the metadata of their passages: `kb_id`, `uri`, `title`, the span.
    Adding and deleting raise UsageError, since an ingest mirrors the sources into the index.
    """

    def __init__(self, kb: KnowledgeBase) -> None:
        super().__init__(kb.index, kb.embedder, kb.namespace)
        self._kb = kb

    def _without_index(self, nothing: T) -> T:
        raise NotIngestedError(not_ingested(self._kb))

    def _check(self, entry: IndexEntry) -> None:
        check_embedder(self._kb, entry)

    def _check_writable(self) -> None:
        raise UsageError(
            f"the documents of knowledge base {self._kb.id!r} come from its sources, and an "
            "ingest would remove any others; add to the sources, or use a collection"
        )
