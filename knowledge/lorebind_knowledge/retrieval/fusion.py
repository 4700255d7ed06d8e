"""Fuse the results of the vector search and the word search.

`weighted` adds the raw scores of both by weight, each scaled to 0 to 1 over the candidates
(min-max): the convex combination of Bruch, Gai and Ingber, "An Analysis of Fusion Functions for
Hybrid Retrieval" (2023). If a small index has no candidate with half of the question's words,
weighted by rarity, words are scaled by that half. Otherwise one common word would count as much as
all words. `rrf` adds 1 / (k + rank): the reciprocal rank fusion of Cormack, Clarke and
Buettcher (2009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lorebind_config.declarations.retrieval import FusionDeclaration
    from lorebind_knowledge.retrieval.query import Candidates

_DECIMALS = 6
_ENOUGH = 0.5
"""The share of the figure of a text with all words from which words have their full weight."""


def fused(
    candidates: Candidates, fusion: FusionDeclaration, full: tuple[float, float] = (0.0, 0.0)
) -> NDArray[np.float64]:
    """Return the raw score `fused` of each candidate, in the order of the candidates.

    It is in 0 to 1 and relative to the best of these candidates.

    Args:
        candidates: without duplicates, with the raw scores `dense`, `lexical` and, if it counts,
            `document`.
        fusion: the method and its settings.
        full: the raw scores `lexical` and `document` of a text with all words of the question; 0
            means that words are scaled by the best candidate alone.
    """
    dense, lexical = candidates.raw_scores["dense"], candidates.raw_scores["lexical"]
    if fusion.method == "rrf":
        figures = _reciprocal_ranks(dense, lexical, fusion.rank_constant)
    else:
        documents = candidates.raw_scores.get("document", np.zeros(len(candidates)))
        least = _ENOUGH * _mixed(*full, fusion.document_weight)
        words = scaled(_mixed(lexical, documents, fusion.document_weight), least)
        figures = _mixed(words, scaled(dense), fusion.dense_weight)
    return np.round(figures, _DECIMALS)


def _mixed(figures: Any, others: Any, share_of_others: float) -> Any:
    return (1 - share_of_others) * figures + share_of_others * others


def scaled(figures: NDArray[np.float64], high: float = 0.0) -> NDArray[np.float64]:
    """Scale values linearly to 0 to 1. Equal values become 1, or 0 if they are not positive.

    Args:
        figures: the values.
        high: the value that becomes 1, if no value is higher.
    """
    if not len(figures):
        return figures
    low, high = figures.min(), max(high, figures.max())
    if high == low:
        return np.full(len(figures), 1.0 if high > 0 else 0.0)
    stretched: NDArray[np.float64] = (figures - low) / (high - low)
    return stretched


def _reciprocal_ranks(
    dense: NDArray[np.float64], lexical: NDArray[np.float64], constant: int
) -> NDArray[np.float64]:
    """Return the sums over both lists, divided by the sum of a passage that is first in both."""
    most = 2 / (constant + 1)
    sums = (1 / (constant + _ranks(dense)) + 1 / (constant + _ranks(lexical))) / most
    # Many sums end in a half, which NumPy may round the other way: it multiplies before rounding.
    return np.array([round(total, _DECIMALS) for total in sums.tolist()])


def _ranks(figures: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each value's rank from 1; equal values share one, and 0 or less ranks at infinity."""
    better = len(figures) - np.searchsorted(np.sort(figures), figures, side="right")
    return np.where(figures > 0, better + 1.0, np.inf)
