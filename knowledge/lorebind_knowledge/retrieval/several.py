"""Several knowledge bases searched as if they were one."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.errors import LorebindError, NotIngestedError, StoreError, UsageError
from lorebind_knowledge.events import Event
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.base import QuestionEmbedding, Search, with_figures
from lorebind_knowledge.retrieval.search import check_question, index_in_use, staged
from lorebind_knowledge.stores.matrix import score_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lorebind_knowledge.declarations import AnyReranker, RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.namespace import IndexKey
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
    if len({kb.embedder.fingerprint.key for kb in kbs}) > 1:
        names = sorted({str(kb.embedder.fingerprint) for kb in kbs})
        raise UsageError(
            f"knowledge bases with different embedders ({', '.join(names)}) have no figures in "
            "common; ask them one by one"
        )
    if not kbs:
        raise UsageError("there is no knowledge base to search")
    started = time.perf_counter()
    asked = settings.strategy
    for kb in kbs:
        _emit(kb, "retrieval_started", strategy=asked, top_k=settings.top_k)
    try:
        result, missing = await _search_several(kbs, question, settings)
    except LorebindError as error:
        for kb in kbs:
            _emit(kb, "retrieval_failed", strategy=asked, reason=str(error))
        raise
    result = replace(result, seconds=time.perf_counter() - started)
    found = Counter(match.metadata["kb_id"] for match in result.matches)
    for kb in kbs:
        if kb.id in missing:
            _emit(kb, "retrieval_failed", strategy=asked, reason=missing[kb.id])
        else:
            done = {"strategy": result.strategy, "matches": found[kb.id]}
            _emit(kb, "retrieval_completed", **done, seconds=result.seconds)
    return result


def _emit(kb: KnowledgeBase, hook: str, **data: Any) -> None:
    kb.events.emit(hook, Event(kb.id, data=data))


async def _search_several(
    kbs: Sequence[KnowledgeBase], question: str, settings: RetrievalDeclaration
) -> tuple[QueryResult, dict[str, str]]:
    """What was found, and why the knowledge bases were skipped that were, by id."""
    embedding = QuestionEmbedding(kbs[0].embedder, question)
    indexes, missing = await _indexes_in_use(kbs)
    try:
        searches = _searches(kbs, indexes, question, settings, embedding)
        matches, name, stage = await staged(searches)
    except StoreError:
        # A reindex may have put a successor in the place of one of them between the two calls.
        successors, missing = await _indexes_in_use(kbs)
        if successors == indexes:
            raise
        searches = _searches(kbs, successors, question, settings, embedding)
        matches, name, stage = await staged(searches)
    result = QueryResult(matches, name, list(searches.parts), list(missing), 0.0, stage)
    return result, missing


async def _indexes_in_use(
    kbs: Sequence[KnowledgeBase],
) -> tuple[dict[str, IndexKey], dict[str, str]]:
    """By the ids of the knowledge bases: the index of those that have one, else why there is none.

    Raises:
        NotIngestedError: none has one.
    """
    found: dict[str, IndexKey] = {}
    missing: dict[str, str] = {}
    for kb in kbs:
        try:
            found[kb.id] = (await index_in_use(kb)).key
        except NotIngestedError as error:
            missing[kb.id] = str(error)
    if not found:
        raise NotIngestedError(next(iter(missing.values())))
    return found, missing


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

    def reranker(self, declaration: AnyReranker) -> Reranker:
        return next(iter(self.parts.values())).reranker(declaration)

    @property
    def hit_score(self) -> float | None:
        return next(iter(self.parts.values())).hit_score

    def under(self, settings: RetrievalDeclaration) -> Searches:
        parts = {kb_id: part.under(settings) for kb_id, part in self.parts.items()}
        return Searches(self.question, settings, parts)

    def part(self, match: DocumentMatch) -> Search:
        return self.parts[match.metadata["kb_id"]]
