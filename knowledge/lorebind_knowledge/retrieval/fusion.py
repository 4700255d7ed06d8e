"""Bringing together what vectors find and what words find.

`weighted` adds the figures of both by weight, each scaled to 0 to 1 over the candidates (min-max):
the convex combination of Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid
Retrieval" (2023). `rrf` adds 1 / (k + rank): the reciprocal rank
fusion of Cormack, Clarke and Buettcher (2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.retrieval.query import weighed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lorebind_knowledge.declarations import FusionDeclaration
    from lorebind_knowledge.retrieval.query import Candidates

_DECIMALS = 6


def fuse(candidates: Candidates, fusion: FusionDeclaration) -> Candidates:
    """The candidates, best first, ties by id.

    The figure `fused` is in 0 to 1, and relative to the best of these candidates; the `score` is
    not, see `weighed`.

    Args:
        candidates: each once, with the figures `dense` and `lexical`, and perhaps `document`.
        fusion: how.
    """
    dense, lexical = candidates.figures["dense"], candidates.figures["lexical"]
    if fusion.method == "rrf":
        figures = _reciprocal_ranks(dense, lexical, fusion.rank_constant)
    else:
        documents = candidates.figures.get("document", np.zeros(len(candidates)))
        words = scaled(_mixed(lexical, documents, fusion.document_weight))
        figures = _mixed(words, scaled(dense), fusion.dense_weight)
    return weighed(candidates, np.round(figures, _DECIMALS), name="fused")


def _mixed(
    figures: NDArray[np.float64], others: NDArray[np.float64], share_of_others: float
) -> NDArray[np.float64]:
    return (1 - share_of_others) * figures + share_of_others * others


def scaled(figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Figures moved and stretched to reach from 0 to 1; where all are equal, 1, or 0 for zeros."""
    if not len(figures):
        return figures
    low, high = figures.min(), figures.max()
    if high == low:
        return np.full(len(figures), 1.0 if high > 0 else 0.0)
    stretched: NDArray[np.float64] = (figures - low) / (high - low)
    return stretched


def _reciprocal_ranks(
    dense: NDArray[np.float64], lexical: NDArray[np.float64], constant: int
) -> NDArray[np.float64]:
    """The sums of both lists, divided by what the first of both would have."""
    most = 2 / (constant + 1)
    sums = (1 / (constant + _ranks(dense)) + 1 / (constant + _ranks(lexical))) / most
    # Many end in a half, of which NumPy may see another side, as it multiplies before it rounds.
    return np.array([round(one, _DECIMALS) for one in sums.tolist()])


def _ranks(figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each figure's rank from 1; equal ones share one, and what is not above 0 is endlessly far."""
    better = len(figures) - np.searchsorted(np.sort(figures), figures, side="right")
    return np.where(figures > 0, better + 1.0, np.inf)
