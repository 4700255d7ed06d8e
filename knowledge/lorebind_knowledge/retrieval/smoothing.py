"""Smoothing: passages gain from what the documents near to their own score.

Documents that are near to each other tend to answer the same questions: the cluster hypothesis of
van Rijsbergen (1979), as score regularization of Diaz (2005) uses it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.retrieval.query import weighed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.declarations.retrieval import SmoothingDeclaration
    from lorebind_knowledge.records import Matrix
    from lorebind_knowledge.retrieval.query import Candidates

_DECIMALS = 6
_LEAST = 1e-9
"""What a document counts that is not near at all."""


def smooth(
    ranked: Candidates,
    documents: Sequence[Hashable],
    vectors: Matrix,
    smoothing: SmoothingDeclaration,
) -> Candidates:
    """The ranking by the figure `fused` and what near documents score, `smoothed`.

    The mix of both is the new `fused`.

    Args:
        ranked: all candidates, best first.
        documents: the document of each.
        vectors: the unit vector of each, shape (candidates, dimension).
        smoothing: how much near documents count, and how many.
    """
    if not ranked:
        return ranked
    fused = ranked.figures["fused"]
    near = figures_of_near_documents(fused, documents, vectors, smoothing.documents)
    mixed = (1 - smoothing.weight) * fused + smoothing.weight * near
    figures = {**ranked.figures, "smoothed": np.round(near, _DECIMALS)}
    return weighed(replace(ranked, figures=figures), np.round(mixed, _DECIMALS), name="fused")


def figures_of_near_documents(
    figures: NDArray[np.float64], documents: Sequence[Hashable], vectors: Matrix, count: int
) -> NDArray[np.float64]:
    """For each passage the mean figure of the documents nearest to its own, by their cosines.

    A document has the figure of its best passage, and the direction of the sum of its passages. One
    that is alone has its own figure.

    Args:
        figures: of each passage, falling.
        documents, vectors: of each passage.
        count: how many documents.
    """
    places: dict[Hashable, int] = {}
    owners = np.array([places.setdefault(one, len(places)) for one in documents])
    _, first = np.unique(owners, return_index=True)
    best: NDArray[np.float64] = figures[first]
    if len(best) == 1:
        return np.full(len(owners), best[0])
    together = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[together], np.arange(len(best)))
    sums = np.add.reduceat(vectors[together], starts)
    units = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _LEAST)
    likeness = units @ units.T
    np.fill_diagonal(likeness, -np.inf)
    count = min(count, len(best) - 1)
    near = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
    weights = np.maximum(np.take_along_axis(likeness, near, axis=1), _LEAST)
    means = (weights * best[near]).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(means[owners], np.float64)
