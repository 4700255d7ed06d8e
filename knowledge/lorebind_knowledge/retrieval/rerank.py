"""`rerank`: the candidates of `hybrid`, in the order that a reranker gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.rerankers.base import rerank_texts
from lorebind_knowledge.retrieval.base import with_figures
from lorebind_knowledge.retrieval.hybrid import hybrid

if TYPE_CHECKING:
    from lorebind_knowledge.retrieval.base import Ranking, Searching

_DECIMALS = 6


async def rerank(search: Searching, limit: int) -> Ranking:
    """`score` is the reranker's figure; those of the fusion stay beside it.

    The reranker sees the same candidates whatever the limit, so that fewer are a prefix of more.

    Raises:
        UsageError: no reranker is declared.
        RerankerError: it failed.
    """
    declared = search.settings.rerank
    if declared is None:
        raise UsageError(
            f"{search.name} is searched with the strategy 'rerank', which needs a reranker; "
            "write: rerank: { class: 'package.module:Class' }"
        )
    ranked = (await hybrid(search, limit))[: declared.candidates]
    reranker = search.reranker(declared)
    if not ranked:
        return []
    figures = await rerank_texts(reranker, search.question, [match.text for match in ranked])
    judged = [
        with_figures(match, round(figure, _DECIMALS), rerank=figure)
        for match, figure in zip(ranked, figures, strict=True)
        if figure is not None
    ]
    return sorted(judged, key=lambda match: (-match.score, match.id))
