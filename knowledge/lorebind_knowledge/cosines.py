"""One meaning of score: cosines in float64, row by row, whatever the store computes by.

Equal vectors so have equal figures wherever they are kept, and every store gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Vector

MARGIN = 2e-5
"""More than stores lose in a product of unit vectors, and more than the last decimal of a score."""
_DECIMALS = 1e6


def score_of(cosine: float) -> float:
    """The score that a cosine makes: clipped to [0, 1], 6 decimals, so that equal texts tie."""
    return round(min(max(cosine, 0.0), 1.0) * _DECIMALS) / _DECIMALS


def direction_of(vector: Vector) -> NDArray[np.float64]:
    """A question's vector at length 1; one of length 0 stays, and has the cosine 0 with all."""
    wide = np.asarray(vector, np.float64)
    length = float(np.sqrt((wide * wide).sum()))
    return wide / length if length else wide


def cosines(vectors: Matrix, direction: NDArray[np.float64]) -> Any:
    """Of each unit vector its cosine with a direction, shape (vectors,)."""
    return (vectors * direction).sum(axis=1)
