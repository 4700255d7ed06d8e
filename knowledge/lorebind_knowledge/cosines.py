"""The definition of a score: cosines in float64, computed row by row, for every store.

Equal vectors have equal scores in every store, so that all stores return the same results.
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
"""The product of each row of a matrix with a vector. It is computed row by row, so that a result
does not depend on the position of its row. NumPy 1 has no vecdot."""


def score_of(cosine: float) -> float:
    """Return a cosine as a score: clipped to [0, 1], with 6 decimals, so that equal texts tie."""
    return round(min(max(cosine, 0.0), 1.0) * _DECIMALS) / _DECIMALS


def scores_of(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cosines as scores; see `score_of`."""
    clipped = np.minimum(np.maximum(cosines, 0), 1)  # `np.clip` takes several times as long
    scores: NDArray[np.float64] = np.rint(clipped * _DECIMALS) / _DECIMALS
    return scores


def best_first(figures: NDArray[np.float64], ids: Sequence[str]) -> list[int]:
    """Return the positions of figures and ids, highest figure first, ties sorted by id."""
    order = np.argsort(-figures)
    falling = figures[order]
    if (falling[1:] == falling[:-1]).any():  # ties are rare, and comparing ids is slow
        return sorted(
            range(len(ids)), key=list(zip((-figures).tolist(), ids, strict=True)).__getitem__
        )
    positions: list[int] = order.tolist()
    return positions


def direction_of(vector: Vector) -> NDArray[np.float64]:
    """Scale a vector to length 1; a zero vector stays, and has the cosine 0 with all vectors."""
    wide = np.asarray(vector, np.float64)
    length = float(np.sqrt((wide * wide).sum()))
    return wide / length if length else wide


def cosines(vectors: Matrix, direction: NDArray[np.float64]) -> Any:
    """Return the cosine of each unit vector with a direction, shape (vectors,)."""
    return dots(vectors.astype(np.float64), direction)
