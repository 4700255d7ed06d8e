"""Searching a knowledge base that others fill, by the methods of its own vector store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from lorebind_knowledge.cosines import score_of
from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.filters import compile_filter
from lorebind_knowledge.identity import digest
from lorebind_knowledge.namespace import DEFAULT_TENANT
from lorebind_knowledge.records import DocumentMatch
from lorebind_knowledge.retrieval.base import Search, run_search
from lorebind_knowledge.retrieval.dedupe import without_repeats
from lorebind_knowledge.retrieval.judging import passing
from lorebind_knowledge.retrieval.rerank import declared_reranker, rerank
from lorebind_knowledge.retrieval.spread import LOOKED_THROUGH, spread_matches
from lorebind_knowledge.retrieval.stages import stages_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.documents import Document

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import ExistingKnowledgeBase
    from lorebind_knowledge.records import QueryResult

_SIFTED = 100
"""Documents that are asked for where not all of them may pass."""
_CHOSEN_FROM = 50
"""Documents among which `mmr` chooses: the nearest, which are embedded anew."""
_GROWTH = 4
_MOST = 100_000
"""Documents that are looked through for those that pass a filter; each comes with its text."""


async def search_existing(
    kb: ExistingKnowledgeBase, question: str, settings: RetrievalDeclaration
) -> QueryResult:
    """The documents that are nearest to a question, the best first, as `search` gives them.

    Raises:
        UsageError: a blank question; a setting that needs an index; a tenant, whom others do not
            know.
        NotIngestedError: there are no documents.
        StoreError: an outage, or scores that cannot be read as cosines.
    """
    search = _ExistingSearch((kb,), question)
    for stage in stages_of(settings):
        search.check(stage)
    return await run_search(search, settings)


@dataclass
class _ExistingSearch(Search):
    kbs: Sequence[ExistingKnowledgeBase]
    question: str
    missing: dict[str, str] = field(default_factory=dict)
    notices: dict[str, str] = field(default_factory=dict)

    @property
    def hit_score(self) -> float | None:
        return self.kbs[0].hit_score

    async def ranked(self, settings: RetrievalDeclaration) -> list[DocumentMatch]:
        strategy, wanted = settings.strategy, settings.top_k
        if strategy == "similarity":
            return await self._found(settings, wanted)
        self.notices["fusion"] = (
            f"{self.name} is filled by others, and has no index of words: {strategy!r} ranks by "
            "vectors alone here, and the figures lexical, document, smoothed and fused are off"
        )
        apart = {"strategy": "similarity", "min_score": None, "max_per_document": None}
        nearest = settings.model_copy(update=apart)
        if strategy == "rerank":
            reranker, most = declared_reranker(self, settings)
            ranked = await rerank(reranker, self.question, await self._found(nearest, most))
        else:
            ranked = await self._diverse(settings, await self._found(nearest, _CHOSEN_FROM))
        passed = list(passing(ranked, settings, strategy))
        return spread_matches(passed, settings.max_per_document)[:wanted]

    async def _diverse(
        self, settings: RetrievalDeclaration, found: Sequence[DocumentMatch]
    ) -> list[DocumentMatch]:
        if not found:
            return []
        texts = [match.text for match in found]
        store, weight = self.kbs[0].store, settings.mmr_lambda
        return [found[at] for at in await store.chosen(self.question, texts, len(texts), weight)]

    async def _found(self, settings: RetrievalDeclaration, k: int) -> list[DocumentMatch]:
        kb, allows = self.kbs[0], compile_filter(settings.filters)
        most = settings.max_per_document
        sifts = settings.filters or settings.min_score is not None or most is not None
        limit = max(k, _SIFTED) if sifts else k
        while True:
            found = [_match(kb.id, *one) for one in await kb.store.nearest(self.question, limit)]
            allowed = [match for match in found if allows(match.metadata)]
            passed = list(passing(allowed, settings, "similarity"))
            first = {one.id for one in found[:LOOKED_THROUGH]}
            movable = sum(one.id in first for one in passed)
            ranked = [*spread_matches(passed[:movable], most), *passed[movable:]]
            kept = without_repeats(ranked) if kb.dedupe else ranked
            # Where some score too low, those that are still further away do too.
            if len(kept) >= k or len(found) < limit or len(passed) < len(allowed):
                return kept[:k]
            if limit == _MOST:
                raise StoreError(
                    f"{self.name}: fewer than {k} of the {limit} nearest documents pass the "
                    "filter; make it wider"
                )
            limit = min(_GROWTH * limit, _MOST)

    def check(self, settings: RetrievalDeclaration) -> None:
        strategy = settings.strategy
        if strategy not in ("similarity", "mmr", "rerank"):
            raise UsageError(
                f"{self.name} is filled by others, and has no index of words for {strategy!r}; "
                "known: similarity, mmr, rerank"
            )
        if settings.neighbours:
            raise UsageError(
                f"{self.name} is filled by others, who do not tell which passages are neighbours; "
                "leave 'neighbours' out"
            )
        if self.kbs[0].namespace.tenant != DEFAULT_TENANT:
            raise UsageError(
                f"{self.name} is filled by others, who know no tenants; search it without one"
            )


def _match(kb_id: str, document: Document, cosine: float) -> DocumentMatch:
    """A document of others as a passage; whatever names its source is its uri."""
    metadata = to_jsonable_python(document.metadata, fallback=str)
    uri = next((str(metadata[key]) for key in ("uri", "source") if metadata.get(key)), "")
    named = {"kb_id": kb_id, "uri": uri, "title": str(metadata.get("title") or "")}
    text = document.page_content
    return DocumentMatch(
        str(document.id or metadata.get("_id") or digest(uri, text)),  # Qdrant's has it there
        score_of(cosine),
        {"dense": cosine},
        text,
        {**metadata, **named},
    )
