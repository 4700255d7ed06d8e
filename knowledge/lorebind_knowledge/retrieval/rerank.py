"""`rerank`: the candidates of `hybrid`, in the order that a reranker gives them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lorebind_knowledge.rerankers.base import rerank_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.rerankers.base import Reranker

_DECIMALS = 6


async def rerank(
    reranker: Reranker, question: str, candidates: Sequence[DocumentMatch]
) -> list[DocumentMatch]:
    """`score` is the reranker's figure; those of the fusion stay beside it.

    The reranker sees the same candidates however many are wanted, so that fewer are a prefix of
    more. What it gives no figure is left out.

    Raises:
        RerankerError: it failed.
    """
    if not candidates:
        return []
    figures = await rerank_texts(reranker, question, [match.text for match in candidates])
    judged = [
        replace(match, score=round(figure, _DECIMALS), scores={**match.scores, "rerank": figure})
        for match, figure in zip(candidates, figures, strict=True)
        if figure is not None
    ]
    return sorted(judged, key=lambda match: (-match.score, match.id))
