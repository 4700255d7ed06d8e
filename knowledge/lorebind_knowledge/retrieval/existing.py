"""Search a knowledge base that others fill, with the methods of its own vector store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from lorebind_config.errors import NotIngestedError, StoreError, UsageError
from lorebind_config.filters import compile_filter
from lorebind_config.namespace import DEFAULT_TENANT, digest
from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.retrieval.base import Search, run_search
from lorebind_knowledge.retrieval.diversity import LOOKED_THROUGH, spread_matches, without_repeats
from lorebind_knowledge.retrieval.judging import passing, relevance
from lorebind_knowledge.retrieval.recency import counts_recency, matches_by_recency
from lorebind_knowledge.retrieval.strategies import before_reranking, declared_reranker, rerank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.documents import Document

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase
    from lorebind_knowledge.records import QueryResult

_SIFTED = 100
"""Minimum number of documents to request if some of them may be dropped."""
_CHOSEN_FROM = 50
"""Number of nearest documents that `mmr` chooses from; they are embedded again."""
_GROWTH = 4
_MOST = 100_000
"""Maximum number of documents to inspect for matches of a filter; each comes with its text."""


async def search_existing(
    kb: ExistingKnowledgeBase, question: str, settings: RetrievalDeclaration
) -> QueryResult:
    """Return the documents nearest to a question, best first, with the same results as `search`.

    Raises:
        UsageError: the question is blank, a setting needs an index, or a tenant is named, which
            such a vector store cannot know.
        NotIngestedError: there are no documents.
        StoreError: the store is unavailable, or its scores cannot be converted to cosines.
    """
    return await run_search(_ExistingSearch((kb,), question), settings)


@dataclass
class _ExistingSearch(Search):
    kbs: Sequence[ExistingKnowledgeBase]
    question: str
    missing: dict[str, NotIngestedError] = field(default_factory=dict)
    notices: dict[str, str] = field(default_factory=dict)

    async def ranked(self, settings: RetrievalDeclaration) -> tuple[list[DocumentMatch], float]:
        strategy, top_k = settings.strategy, settings.top_k
        if strategy == "similarity":
            return await self._nearest(settings, top_k)
        self.notices["fusion"] = (
            f"{self.name} is filled by others and has no word index: {strategy!r} ranks by vectors "
            "only, without the scores lexical, document, smoothed and fused"
        )
        apart = {"strategy": "similarity", "max_per_document": None}
        nearest = before_reranking(settings).model_copy(update=apart)
        if strategy == "rerank":
            reranker, most = declared_reranker(self, settings)
            candidates, _ = await self._nearest(nearest, most)
            ranked = await rerank(reranker, self.question, candidates, settings)
        else:
            candidates, _ = await self._nearest(nearest, _CHOSEN_FROM)
            texts = [match.text for match in candidates]
            choose = self.kbs[0].store.chosen
            weight = settings.mmr_lambda
            order = await choose(self.question, texts, len(texts), weight) if texts else []
            ranked = [candidates[at] for at in order]
        best = max((relevance(match.scores, settings) for match in ranked), default=0.0)
        passed = passing(ranked, settings)
        return spread_matches(passed, settings.max_per_document)[:top_k], best

    async def _nearest(
        self, settings: RetrievalDeclaration, k: int
    ) -> tuple[list[DocumentMatch], float]:
        kb, allows = self.kbs[0], compile_filter(settings.filters)
        most = settings.max_per_document
        sifts = bool(settings.filters or counts_recency(settings)) or settings.min_score is not None
        sifts = sifts or most is not None
        limit = max(k, _SIFTED) if sifts else k
        while True:
            documents = [
                _match(kb.id, *match) for match in await kb.store.nearest(self.question, limit)
            ]
            allowed = [match for match in documents if allows(match.metadata)]
            best = max((relevance(match.scores, settings) for match in allowed), default=0.0)
            passed = passing(allowed, settings)
            first = {match.id for match in documents[:LOOKED_THROUGH]}
            movable = sum(match.id in first for match in passed)
            first_ones = matches_by_recency(passed[:movable], settings)
            ranked = [*spread_matches(first_ones, most), *passed[movable:]]
            unique = without_repeats(ranked, k) if kb.dedupe else ranked
            # If some documents score too low, all documents further away do too.
            if len(unique) >= k or len(documents) < limit or len(passed) < len(allowed):
                return unique[:k], best
            if limit == _MOST:
                raise StoreError(
                    f"{self.name}: fewer than {k} of the {limit} nearest documents pass the "
                    "filter; make the filter less strict"
                )
            limit = min(_GROWTH * limit, _MOST)

    def check(self, settings: RetrievalDeclaration) -> None:
        strategy = settings.strategy
        if strategy not in ("similarity", "mmr", "rerank"):
            raise UsageError(
                f"{self.name} is filled by others and has no word index for {strategy!r}; "
                "known: similarity, mmr, rerank",
                at=("strategy",),
            )
        if settings.neighbours:
            raise UsageError(
                f"{self.name} is filled by others, so the order of its passages is unknown; "
                "omit 'neighbours'"
            )
        if settings.versions is not None:
            raise UsageError(
                f"{self.name} is filled by others, so the versions of its documents are unknown; "
                "omit 'versions'"
            )
        if self.kbs[0].namespace.tenant != DEFAULT_TENANT:
            raise UsageError(
                f"{self.name} is filled by others and has no tenants; search it without one"
            )


def _match(kb_id: str, document: Document, cosine: float) -> DocumentMatch:
    """Convert a foreign document to a passage; the metadata that names its source is its uri."""
    metadata = to_jsonable_python(document.metadata, fallback=str)
    uri = next((str(metadata[key]) for key in ("uri", "source") if metadata.get(key)), "")
    named = {"kb_id": kb_id, "uri": uri, "title": str(metadata.get("title") or "")}
    text, score = document.page_content, score_of(cosine)
    return DocumentMatch(
        str(document.id or metadata.get("_id") or digest(uri, text)),  # `_id` is Qdrant's
        score,
        score,
        {"dense": cosine},
        text,
        {**metadata, **named},
    )
