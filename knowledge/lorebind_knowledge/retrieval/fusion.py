"""Bringing together what vectors find and what words find.

`weighted` adds the figures of both by weight, each scaled to 0 to 1 over the candidates (min-max):
the convex combination of Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
Retrieval" (2023). `rrf` adds 1 / (k + rank): the reciprocal rank
fusion of Cormack, Clarke and Buettcher (2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.query import weighed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.declarations import FusionDeclaration
    from lorebind_knowledge.retrieval.query import Candidate, Ranking

_DECIMALS = 6


def fuse(candidates: Sequence[Candidate], fusion: FusionDeclaration) -> Ranking:
    """The candidates, best first, ties by id.

    `scores["fused"]` is in 0 to 1, and relative to the best of these candidates; the `score` is
    not, see `weighed`.

    Args:
        candidates: each once, with its figures `dense` and `lexical` in `scores`; one that is not
            there counts as 0.
        fusion: how.
    """
    dense = [one.scores.get("dense", 0.0) for one in candidates]
    lexical = [one.scores.get("lexical", 0.0) for one in candidates]
    if fusion.method == "rrf":
        figures = _reciprocal_ranks(dense, lexical, fusion.rank_constant)
    else:
        documents = [one.scores.get("document", 0.0) for one in candidates]
        words = scaled(_mixed(lexical, documents, fusion.document_weight))
        figures = _mixed(words, scaled(dense), fusion.dense_weight)
    rounded = [round(figure, _DECIMALS) for figure in figures]
    return weighed(candidates, rounded, name="fused")


def _mixed(
    figures: Sequence[float], others: Sequence[float], share_of_others: float
) -> list[float]:
    pairs = zip(figures, others, strict=True)
    return [(1 - share_of_others) * one + share_of_others * other for one, other in pairs]


def scaled(figures: Sequence[float]) -> list[float]:
    """Figures moved and stretched to reach from 0 to 1; where all are equal, 1, or 0 for zeros."""
    if not figures:
        return []
    low, high = min(figures), max(figures)
    if high == low:
        return [1.0 if high > 0 else 0.0] * len(figures)
    return [(figure - low) / (high - low) for figure in figures]


def _reciprocal_ranks(
    dense: Sequence[float], lexical: Sequence[float], constant: int
) -> list[float]:
    """The sums of both lists, divided by what the first of both would have."""
    most = 2 / (constant + 1)
    ranks = zip(_ranks(dense), _ranks(lexical), strict=True)
    return [
        sum(1 / (constant + rank) for rank in both if rank is not None) / most for both in ranks
    ]


def _ranks(figures: Sequence[float]) -> list[int | None]:
    """Each figure's rank from 1; equal ones share one, and what is not above 0 has none."""
    order = sorted({figure for figure in figures if figure > 0}, reverse=True)
    first: dict[float, int] = {}
    rank = 1
    for figure in order:
        first[figure] = rank
        rank += figures.count(figure)
    return [first.get(figure) for figure in figures]
