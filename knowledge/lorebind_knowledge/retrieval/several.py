"""One result of several searches, whose scores may not be comparable."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.recency import counts_recency

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_config.errors import NotIngestedError
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch

_BEST_FIRST = ("hit", "weak", "miss")


def embedder_of(kb: SearchableKnowledgeBase) -> Hashable:
    """Return a key of the embedder. A knowledge base that others fill is searched by itself."""
    return kb.embedder.fingerprint.key if isinstance(kb, IndexedKnowledgeBase) else (kb.id,)


@dataclass(frozen=True, slots=True)
class JoinedSearch:
    """Knowledge bases that are searched as if they were one."""

    kbs: tuple[SearchableKnowledgeBase, ...]
    settings: RetrievalDeclaration

    def scale(self, result: QueryResult) -> Hashable:
        """Return a key that is equal for comparable scores: same embedder, reranker and recency."""
        reranker = self.settings.rerank if result.strategy == "rerank" else None
        parts = reranker, counts_recency(self.settings)
        return embedder_of(self.kbs[0]), *(part and part.model_dump_json() for part in parts)


def joined_searches(
    kbs: Iterable[tuple[SearchableKnowledgeBase, RetrievalDeclaration]],
) -> list[JoinedSearch]:
    """Join the knowledge bases that have the same embedder and the same settings."""
    groups: dict[Hashable, list[SearchableKnowledgeBase]] = {}
    chosen: dict[Hashable, RetrievalDeclaration] = {}
    for kb, settings in kbs:
        key = embedder_of(kb), settings.model_dump_json()
        groups.setdefault(key, []).append(kb)
        chosen[key] = settings
    return [JoinedSearch(tuple(members), chosen[key]) for key, members in groups.items()]


def merged(
    searches: Sequence[JoinedSearch],
    results: Sequence[QueryResult | NotIngestedError],
    seconds: float,
) -> QueryResult:
    """Return one result of several searches, with at most as many passages as the largest `top_k`.

    Passages on the same scale are ordered by score, and by recency where it counts. Those of
    different scales are ordered by their ranks, which is what reciprocal rank fusion does with
    lists that have nothing in common; of equal ranks, those of the better verdict come first.

    Args:
        searches: the searches.
        results: the result of each, or the error if nothing has been ingested there.
        seconds: how long they took together.

    Raises:
        NotIngestedError: none has a result.
    """
    pairs = list(zip(searches, results, strict=True))
    answered = [(each, result) for each, result in pairs if isinstance(result, QueryResult)]
    if not answered:
        raise next(error for error in results if not isinstance(error, QueryResult))
    answered.sort(key=lambda pair: _BEST_FIRST.index(pair[1].verdict))
    scales: dict[Hashable, list[DocumentMatch]] = {}
    for each, result in answered:
        scales.setdefault(each.scale(result), []).extend(result.matches)
    for matches in scales.values():
        matches.sort(key=lambda match: (-match.ordering, match.id))
    ranked = [match for match in chain(*zip_longest(*scales.values())) if match is not None]
    best = answered[0][1]
    searched, skipped = list[str](), list[str]()
    for each, outcome in pairs:
        if isinstance(outcome, QueryResult):
            searched += outcome.searched
            skipped += outcome.skipped
        else:
            skipped += [kb.id for kb in each.kbs]
    notices = {notice: None for _, result in answered for notice in result.notices}
    by_ranks = len(scales) > 1
    if by_ranks:
        ids = ", ".join(map(repr, searched))
        notices[
            f"the scores of {ids} cannot be compared, because their embedders, rerankers or "
            "settings of recency differ; their passages are ordered by rank"
        ] = None
    return QueryResult(
        ranked[: max(each.settings.top_k for each in searches)],
        ", ".join(dict.fromkeys(result.strategy for _, result in answered)),
        searched,
        skipped,
        seconds,
        best.stage,
        best.verdict,
        "; ".join(dict.fromkeys(result.shortfall for _, result in answered))
        if best.shortfall
        else "",
        list(notices),
        by_ranks,
    )
