"""`similarity`: the passages whose vectors are nearest to the question's, by cosine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.records import SearchOptions

if TYPE_CHECKING:
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.scope import IndexKey


async def similarity(
    kb: KnowledgeBase, index: IndexKey, question: str, settings: RetrievalDeclaration
) -> list[DocumentMatch]:
    vector = await embed_query(kb.embedder, question)
    options = SearchOptions(index, settings.top_k, settings.min_score, settings.filters)
    return await call(kb.store.similarity_search, vector, options)
