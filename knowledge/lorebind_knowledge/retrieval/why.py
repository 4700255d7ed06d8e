"""Why a search does not find a document: the rank and score of its best passage at each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_config.filters import compile_filter
from lorebind_knowledge.index.index import read_indexes
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import ORDERS, SearchPath, SearchStage
from lorebind_knowledge.retrieval.judging import relevance
from lorebind_knowledge.retrieval.search import IndexSearch
from lorebind_knowledge.retrieval.strategies import before_reranking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.chunks import StoredChunk
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.query import Query

_SIGNALS = ("dense", "lexical", "terms", "document", "fused", "recency", ORDERS)


async def path_of(
    kb: IndexedKnowledgeBase, question: str, uri: str, settings: RetrievalDeclaration
) -> SearchPath:
    """Search, and return how far a document comes.

    Args:
        kb: the knowledge base.
        question: any text that is not blank.
        uri: that of one of its documents.
        settings: how to search. The `stages` that follow a weak result are not considered.

    Raises:
        LorebindError: as for a search.
    """
    search = IndexSearch((kb,), question)
    search.check(settings)
    await search.embed(settings)
    depth = settings.fusion.depth
    by_rank = settings.strategy in ("similarity", "lexical")
    first = settings if by_rank else before_reranking(settings)

    def follow(views: Mapping[Namespace, View]) -> tuple[list[DocumentMatch], list[SearchStage]]:
        query = search.query(first, views)
        chunks = query.views[kb.id].document(uri)
        candidates = search.rank(first, depth, views)
        return candidates, [
            *_included(query.views[kb.id], uri, len(chunks)),
            *_filtered(chunks, settings),
            *_newest(query.views[kb.id], chunks, settings),
            *_signals(candidates, uri, lambda: _own_scores(query, kb.id, chunks)),
            _candidates(candidates, uri, len(chunks), depth),
        ]

    with search.lane():
        candidates, stages = await call(read_indexes, search.indexes, follow)
        final, _ = await search.ranked(settings)
        if settings.strategy == "rerank" and stages[-1].passes:
            candidates = await search.rerank(settings)
            note = "the reranker received only the best candidates"
            stages.append(_place("rerank", candidates, uri, lambda match: match.score, note))
    if settings.min_score is not None:
        stages.append(_reaches(candidates, uri, settings.min_score, settings))
    if settings.strategy == "mmr":
        stages.append(_place("mmr", final, uri, lambda match: match.scores["mmr"]))
    note = f"the search returns {len(final)} passages; others rank higher, or say the same"
    stages.append(_place("top_k", final, uri, lambda match: match.score, note))
    is_found = stages[-1].passes
    lost_at = None if is_found else next(stage.stage for stage in stages if not stage.passes)
    return SearchPath(uri, stages, lost_at, _in_words(uri, stages, lost_at))


def _included(view: View, uri: str, chunks: int) -> list[SearchStage]:
    if uri not in view.excluded:
        return []
    note = "it was excluded from searches; `include` lets them find it again"
    return [SearchStage("excluded", None, None, chunks, passes=False, note=note)]


def _filtered(chunks: Sequence[StoredChunk], settings: RetrievalDeclaration) -> list[SearchStage]:
    if not settings.filters:
        return []
    predicate = compile_filter(settings.filters)
    passing = sum(predicate(chunk.metadata) for chunk in chunks)
    note = f"{passing} of its {len(chunks)} passages pass the filter"
    return [SearchStage("filters", None, None, len(chunks), passing > 0, note)]


def _newest(
    view: View, chunks: Sequence[StoredChunk], settings: RetrievalDeclaration
) -> list[SearchStage]:
    if settings.versions is None or not settings.versions.newest:
        return []
    newest = view.newest_of([chunk.number for chunk in chunks], settings.filters)
    note = f"{len(newest)} of its {len(chunks)} passages are of the newest version"
    return [SearchStage("versions", None, None, len(chunks), bool(newest), note)]


def _signals(
    candidates: Sequence[DocumentMatch], uri: str, of_it: Callable[[], Mapping[str, float]]
) -> list[SearchStage]:
    """Return its rank by each raw score; if it is no candidate, only its own scores."""
    names = [name for name in _SIGNALS if candidates and name in candidates[0].scores]
    if any(match.metadata.get("uri") == uri for match in candidates):
        return [
            _place(name, sorted(candidates, key=score, reverse=True), uri, score)
            for name in names
            for score in [lambda match, name=name: match.scores[name]]
        ]
    scores = of_it()
    return [
        SearchStage(name, None, scores[name], len(candidates), passes=True)
        for name in names
        if name in scores
    ]


def _own_scores(query: Query, kb_id: str, chunks: Sequence[StoredChunk]) -> dict[str, float]:
    """Return the best raw scores of passages that are not among the candidates."""
    if not chunks:
        return {}
    view = query.views[kb_id]
    numbers = np.array([chunk.number for chunk in chunks], np.int64)
    scores = {"lexical": view.bm25_scores(query.question, numbers)}
    if query.vector is not None:
        scores["dense"] = view.cosines(query.vector, numbers)
    if query.terms is not None:
        scores["terms"] = view.terms(query.terms).scores(numbers)
    return {name: float(figures.max()) for name, figures in scores.items()}


def _candidates(
    candidates: Sequence[DocumentMatch], uri: str, chunks: int, depth: int
) -> SearchStage:
    of_document = sum(match.metadata.get("uri") == uri for match in candidates)
    note = f"{of_document} of its {chunks} passages are among the {depth} best of a signal"
    if not chunks:
        note = "the index has no passage of it"
    return SearchStage("candidates", None, None, len(candidates), of_document > 0, note)


def _place(
    stage: str,
    ranked: Sequence[DocumentMatch],
    uri: str,
    score: Callable[[DocumentMatch], float],
    note: str = "",
) -> SearchStage:
    """Return the place of the document's first passage; the note is for one that has none."""
    for rank, match in enumerate(ranked, 1):
        if match.metadata.get("uri") == uri:
            return SearchStage(stage, rank, score(match), len(ranked), passes=True)
    return SearchStage(stage, None, None, len(ranked), False, note)


def _reaches(
    candidates: Sequence[DocumentMatch], uri: str, least: float, settings: RetrievalDeclaration
) -> SearchStage:
    decisive = [
        relevance(match.scores, settings)
        for match in candidates
        if match.metadata.get("uri") == uri
    ]
    best = max(decisive, default=None)
    passes = best is not None and best >= least
    note = "" if passes else f"the search omits passages below {least:g}"
    return SearchStage("min_score", None, best, len(candidates), passes, note)


def _in_words(uri: str, stages: Sequence[SearchStage], lost_at: str | None) -> str:
    if lost_at is None:
        return f"The search finds {uri}, at rank {stages[-1].rank}."
    lost = next(stage for stage in stages if stage.stage == lost_at)
    before = [stage for stage in stages if stage.stage == "fused" and stage.rank]
    rank = f", where it is at rank {before[0].rank} of {before[0].of}" if before else ""
    reason = f": {lost.note}" if lost.note else ""
    return f"The search loses {uri} at {lost_at}{rank}{reason}."
