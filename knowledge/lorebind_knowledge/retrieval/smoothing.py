"""Smoothing: passages gain from what the documents near to their own score.

Documents that are near to each other tend to answer the same questions: the cluster hypothesis of
van Rijsbergen (1979), as score regularization of Diaz (2005) uses it.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.retrieval.query import weighed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from lorebind_config.declarations.retrieval import SmoothingDeclaration
    from lorebind_knowledge.records import Matrix
    from lorebind_knowledge.retrieval.query import Candidates

_LEAST = 1e-9
"""Smallest weight and smallest length, so that nothing is divided by zero."""
_TILE = 1 << 18
"""Multiplications up to which OpenBLAS, which NumPy brings, computes a product in one thread."""


def smooth(
    candidates: Candidates,
    fused: NDArray[np.float64],
    documents: Sequence[Hashable],
    vectors: Matrix,
    smoothing: SmoothingDeclaration,
) -> Candidates:
    """Return the candidates, best first, by their own score and the scores of near documents.

    The raw score `smoothed` comes from near documents. The raw score `fused` is the mix of both.

    Args:
        candidates: all of them, in any order.
        fused: the score of each before it is mixed.
        documents: the document of each.
        vectors: the unit vector of each, shape (candidates, dimension).
        smoothing: how much near documents count, and how many.
    """
    if not candidates:
        return candidates
    near = scores_of_near_documents(fused, documents, vectors, smoothing.documents)
    mixed = (1 - smoothing.weight) * fused + smoothing.weight * near
    figures = {**candidates.raw_scores, "smoothed": np.round(near, _DECIMALS)}
    return weighed(
        replace(candidates, raw_scores=figures), np.round(mixed, _DECIMALS), name="fused"
    )


def scores_of_near_documents(
    figures: NDArray[np.float64], documents: Sequence[Hashable], vectors: Matrix, count: int
) -> NDArray[np.float64]:
    """For each passage the mean figure of the documents nearest to its own, by their cosines.

    A document has the figure of its best passage, and the direction of the sum of its passages. One
    that is alone has its own figure.

    Args:
        figures, documents, vectors: of each passage.
        count: how many documents.
    """
    places: dict[Hashable, int] = {}
    owners = np.array([places.setdefault(document, len(places)) for document in documents])
    together = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[together], np.arange(len(places)))
    best: NDArray[np.float64] = np.maximum.reduceat(figures[together], starts)
    if len(best) == 1:
        return np.full(len(owners), best[0])
    sums = vectors[together[starts]]
    sizes = np.bincount(owners)
    for nth in range(1, sizes.max()):  # few times; `np.add.reduceat` takes longer
        more = np.flatnonzero(sizes > nth)
        sums[more] += vectors[together[starts[more] + nth]]
    likeness = _cosines(sums)
    np.fill_diagonal(likeness, -np.inf)
    count = min(count, len(best) - 1)
    near = np.argpartition(-likeness, count - 1, axis=1)[:, :count]
    weights = np.maximum(np.take_along_axis(likeness, near, axis=1), _LEAST)
    means = (weights * best[near]).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(means[owners], np.float64)


def _cosines(vectors: Matrix) -> Matrix:
    """Return the cosine of every two rows, shape (rows, rows), and 0 for a row of length 0.

    The product is computed in tiles. BLAS would divide the whole product among threads, which wait
    for each other if other searches keep the processors busy; see `stores.product`.
    """
    count, dimension = vectors.shape
    side = max(isqrt(_TILE // dimension), 1)
    tiles = np.zeros((-(-count // side), side, dimension), np.float32)
    tiles.reshape(-1, dimension)[:count] = vectors
    padded = len(tiles) * side
    tiled = tiles[:, None] @ tiles.transpose(0, 2, 1)
    products = tiled.transpose(0, 2, 1, 3).reshape(padded, padded)[:count, :count]
    lengths = np.maximum(np.sqrt(np.diagonal(products)), _LEAST)
    cosines: Matrix = products / lengths / lengths[:, None]
    return cosines
