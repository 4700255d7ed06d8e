"""Several knowledge bases searched as if they were one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import NotIngestedError, UsageError
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.base import QuestionEmbedding, Search, with_figures
from lorebind_knowledge.retrieval.search import check_question, index_in_use, ranked
from lorebind_knowledge.stores.matrix import score_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lorebind_knowledge.declarations import RerankDeclaration, RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch, StoredRecord
    from lorebind_knowledge.rerankers.base import Reranker


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
    embedders = {str(kb.embedder.fingerprint): kb.embedder.fingerprint.key for kb in kbs}
    if len(set(embedders.values())) > 1:
        raise UsageError(
            f"knowledge bases with different embedders ({', '.join(sorted(embedders))}) have no "
            "figures in common; ask them one by one"
        )
    embedding = QuestionEmbedding(kbs[0].embedder, question) if kbs else None
    parts: dict[str, Search] = {}
    skipped: list[NotIngestedError] = []
    missing: list[str] = []
    for kb in kbs:
        try:
            index = await index_in_use(kb)
        except NotIngestedError as error:
            skipped.append(error)
            missing.append(kb.id)
        else:
            parts[kb.id] = Search(kb, index.key, question, settings, embedding)
    if not parts:
        raise skipped[0] if skipped else UsageError("there is no knowledge base to search")
    matches, name = await ranked(Searches(question, settings, parts))
    return QueryResult(matches, name, list(parts), missing, time.perf_counter() - started)


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
