"""A knowledge base as LangChain's `VectorStore`: to be searched, not written."""

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

    It searches by vectors alone, whatever the knowledge base's `retrieval` says; a retriever does
    what that says. Documents come with the metadata of their passages: `kb_id`, `uri`, `title`, the
    span. Adding and deleting raises UsageError: an ingest makes the index what the sources hold.
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
            f"the documents of knowledge base {self._kb.id!r} are those of its sources, and an "
            "ingest would remove any other; add to the sources, or use a collection"
        )
