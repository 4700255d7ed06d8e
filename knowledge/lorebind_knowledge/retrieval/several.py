"""Several knowledge bases searched as if they were one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import NotIngestedError, StoreError, UsageError
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.base import QuestionEmbedding, Search, with_figures
from lorebind_knowledge.retrieval.search import check_question, index_in_use, ranked
from lorebind_knowledge.stores.matrix import score_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lorebind_knowledge.declarations import RerankDeclaration, RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch, StoredRecord
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.scope import IndexKey


async def search_several(
    kbs: Sequence[KnowledgeBase], question: str, settings: RetrievalDeclaration
) -> QueryResult:
    """The passages of several knowledge bases that answer a question best, in one ranking.

    Their figures are brought together before they are fused, so that a passage competes with those
    of all. That means something only where one embedder made the vectors.

    Args:
        kbs: the knowledge bases; those into which nothing was ingested are `skipped`.
        question: any text that is not blank.
        settings: how to search all of them.

    Raises:
        UsageError: a blank question, or embedders that differ.
        NotIngestedError: nothing has been ingested into any of them.
        LorebindError: see `search`; the first outage of any of them.
    """
    check_question(question)
    started = time.perf_counter()
    if len({kb.embedder.fingerprint.key for kb in kbs}) > 1:
        names = sorted({str(kb.embedder.fingerprint) for kb in kbs})
        raise UsageError(
            f"knowledge bases with different embedders ({', '.join(names)}) have no figures in "
            "common; ask them one by one"
        )
    if not kbs:
        raise UsageError("there is no knowledge base to search")
    embedding = QuestionEmbedding(kbs[0].embedder, question)
    indexes = await _indexes_in_use(kbs)
    try:
        searches = _searches(kbs, indexes, question, settings, embedding)
        matches, name = await ranked(searches)
    except StoreError:
        # A reindex may have put a successor in the place of one of them between the two calls.
        successors = await _indexes_in_use(kbs)
        if successors == indexes:
            raise
        searches = _searches(kbs, successors, question, settings, embedding)
        matches, name = await ranked(searches)
    searched = list(searches.parts)
    skipped = [kb.id for kb in kbs if kb.id not in searches.parts]
    return QueryResult(matches, name, searched, skipped, time.perf_counter() - started)


async def _indexes_in_use(kbs: Sequence[KnowledgeBase]) -> dict[str, IndexKey]:
    """By the id of the knowledge base, for those that have one."""
    found: dict[str, IndexKey] = {}
    missing: list[NotIngestedError] = []
    for kb in kbs:
        try:
            found[kb.id] = (await index_in_use(kb)).key
        except NotIngestedError as error:
            missing.append(error)
    if not found:
        raise missing[0]
    return found


def _searches(
    kbs: Sequence[KnowledgeBase],
    indexes: Mapping[str, IndexKey],
    question: str,
    settings: RetrievalDeclaration,
    embedding: QuestionEmbedding,
) -> Searches:
    parts = {
        kb.id: Search(kb, indexes[kb.id], question, settings, embedding)
        for kb in kbs
        if kb.id in indexes
    }
    return Searches(question, settings, parts)


@dataclass(frozen=True)
class Searches:
    """The same question to several indexes, their answers merged."""

    question: str
    settings: RetrievalDeclaration
    parts: dict[str, Search]
    """By the id of the knowledge base."""

    @property
    def name(self) -> str:
        return f"knowledge bases {', '.join(map(repr, self.parts))}"

    @property
    def has_words(self) -> bool:
        return all(part.has_words for part in self.parts.values())

    @property
    def dedupe(self) -> bool:
        return any(part.dedupe for part in self.parts.values())

    async def dense(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        found = await asyncio.gather(*(part.dense(top_k, ids) for part in self.parts.values()))
        merged = [match for matches in found for match in matches]
        return sorted(merged, key=lambda match: (-match.score, match.id))[:top_k]

    async def lexical(self, top_k: int, ids: Collection[str] | None = None) -> list[DocumentMatch]:
        found = await asyncio.gather(*(part.lexical(top_k, ids) for part in self.parts.values()))
        merged = [match for matches in found for match in matches]
        best = max((match.scores["lexical"] for match in merged), default=1.0)
        scored = [with_figures(match, score_of(match.scores["lexical"] / best)) for match in merged]
        return sorted(scored, key=lambda match: (-match.score, match.id))[:top_k]

    async def stored(self, ids: Collection[str]) -> dict[str, StoredRecord]:
        found = await asyncio.gather(*(part.stored(ids) for part in self.parts.values()))
        return {name: record for records in found for name, record in records.items()}

    def reranker(self, declaration: RerankDeclaration) -> Reranker:
        return next(iter(self.parts.values())).reranker(declaration)

    def part(self, match: DocumentMatch) -> Search:
        return self.parts[match.metadata["kb_id"]]
