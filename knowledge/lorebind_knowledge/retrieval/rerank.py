"""The strategy `rerank`: a reranker orders the candidates of `hybrid`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_knowledge.rerankers.base import rerank_texts
from lorebind_knowledge.retrieval.judging import relevance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.rerankers.base import Reranker
    from lorebind_knowledge.retrieval.base import Search



async def rerank(
    reranker: Reranker,
    question: str,
    candidates: Sequence[DocumentMatch],
    settings: RetrievalDeclaration,
) -> list[DocumentMatch]:
    """Order candidates by the reranker's score, which becomes `score`; the raw scores stay.

    The reranker sees the same candidates for every `top_k`, so that a smaller one returns a prefix
    of a larger one. Candidates without a score are dropped.

    Raises:
        RerankerError: the reranker failed.
    """
    if not candidates:
        return []
    figures = await rerank_texts(reranker, question, [match.text for match in candidates])
    judged = []
    for match, figure in zip(candidates, figures, strict=True):
        if figure is not None:
            scores = {**match.scores, "rerank": figure}
            decisive = relevance(scores, settings)
            score = round(figure, _DECIMALS)
            judged.append(replace(match, score=score, relevance=decisive, scores=scores))
    return sorted(judged, key=lambda match: (-match.score, match.id))


def before_reranking(settings: RetrievalDeclaration) -> RetrievalDeclaration:
    """Return the settings of the search for candidates, which have no reranker's score yet."""
    return settings.model_copy(
        update={"strategy": "hybrid", "min_score": None, "min_score_on": None}
    )


def declared_reranker(search: Search, settings: RetrievalDeclaration) -> tuple[Reranker, int]:
    """Return the declared reranker and the number of passages it receives.

    Raises:
        UsageError: no reranker is declared.
    """
    declared, make = settings.rerank, search.kbs[0].reranker
    if declared is None:
        raise UsageError(
            f"{search.name} is searched with the strategy 'rerank', which needs a reranker; "
            "write: rerank: { class: 'package.module:Class' }",
            at=("strategy",),
        )
    if make is None:
        raise UsageError(f"{search.name} was created without rerankers")
    return make(declared), declared.candidates
