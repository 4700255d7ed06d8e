"""One meaning of score: cosines in float64, row by row, whatever the store computes by.

Equal vectors so have equal figures wherever they are kept, and every store gives the same answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Vector

MARGIN = 2e-5
"""More than stores lose in a product of unit vectors, and more than the last decimal of a score."""
_DECIMALS = 1e6

dots: Callable[..., Any] = getattr(np, "vecdot", partial(np.einsum, "ij,j->i"))
"""Of each row of a matrix its product with a vector. Row by row: a figure does not depend on where
in the matrix its row stands. NumPy 1 has no vecdot."""


def score_of(cosine: float) -> float:
    """The score that a cosine makes: clipped to [0, 1], 6 decimals, so that equal texts tie."""
    return round(min(max(cosine, 0.0), 1.0) * _DECIMALS) / _DECIMALS


def scores_of(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same of many."""
    scores: NDArray[np.float64] = np.rint(np.clip(cosines, 0, 1) * _DECIMALS) / _DECIMALS
    return scores


def best_first(figures: NDArray[np.float64], ids: Sequence[str]) -> list[int]:
    """The positions in the order of some figures, best first, ties by id."""
    order = np.argsort(-figures)
    falling = figures[order]
    if (falling[1:] == falling[:-1]).any():  # they seldom tie, and comparing ids takes long
        return sorted(
            range(len(ids)), key=list(zip((-figures).tolist(), ids, strict=True)).__getitem__
        )
    positions: list[int] = order.tolist()
    return positions


def direction_of(vector: Vector) -> NDArray[np.float64]:
    """A question's vector at length 1; one of length 0 stays, and has the cosine 0 with all."""
    wide = np.asarray(vector, np.float64)
    length = float(np.sqrt((wide * wide).sum()))
    return wide / length if length else wide


def cosines(vectors: Matrix, direction: NDArray[np.float64]) -> Any:
    """Of each unit vector its cosine with a direction, shape (vectors,)."""
    return dots(vectors.astype(np.float64), direction)
