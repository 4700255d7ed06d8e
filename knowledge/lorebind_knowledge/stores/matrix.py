"""Exact search in memory: every vector of an index as one matrix, one product per query.

The product is made in float32, where it is fast, and only nominates. Which record is how near is
then worked out in float64, row by row, so that equal vectors get equal figures wherever in the
matrix they stand, and every store that searches here gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lorebind_knowledge.stores.product import product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Vector

    Mask: TypeAlias = NDArray[np.bool_]
    """Which positions of a matrix a search may return."""
    Fetch: TypeAlias = Callable[[Sequence[int]], Iterable[tuple[int, Vector]]]
    """Given row numbers, their vectors in any order."""

# More than float32 loses in a product of unit vectors, and more than the last decimal of a score.
_MARGIN = 1e-5
_DECIMALS = 1e6
# A row costs so much more where it is copied before it is multiplied.
_SPARSE = 8
# How many rows are worked on at a time: few enough for a processor's cache, and a load needs little
# more than the matrix itself.
_BLOCK = 1024


def score_of(cosine: float) -> float:
    """The score that a cosine makes: clipped to [0, 1], 6 decimals."""
    return round(min(max(cosine, 0.0), 1.0) * _DECIMALS) / _DECIMALS


class ExactMatrix:
    """Unit vectors with the row numbers and ids of their records, in the order of ids. Immutable.

    A row number is the store's own; it must never come to mean another vector.
    """

    __slots__ = ("_unit", "rows")

    def __init__(self, rows: NDArray[np.int64], unit: Matrix) -> None:
        self.rows = rows
        self._unit = unit
        unit.setflags(write=False)

    @classmethod
    def empty(cls, dimension: int) -> ExactMatrix:
        return cls(np.empty(0, np.int64), np.empty((0, dimension), np.float32))

    def __len__(self) -> int:
        return len(self.rows)

    def replaced(self, entries: Iterable[tuple[str, int]], fetch: Fetch) -> ExactMatrix:
        """The matrix over these (id, row) pairs; rows that are here already are not fetched."""
        entries = sorted(entries)
        rows = np.fromiter((row for _, row in entries), np.int64, len(entries))
        unit = np.empty((len(rows), self._unit.shape[1]), np.float32)
        _, new_at, old_at = np.intersect1d(rows, self.rows, assume_unique=True, return_indices=True)
        for start in range(0, len(new_at), _BLOCK):
            part = slice(start, start + _BLOCK)
            unit[new_at[part]] = self._unit[old_at[part]]
        missing = np.ones(len(rows), np.bool_)
        missing[new_at] = False
        _fill(unit, {int(rows[at]): int(at) for at in np.flatnonzero(missing)}, fetch)
        return ExactMatrix(rows, unit)

    def among(self, rows: Sequence[int], allowed: Mask | None = None) -> Mask:
        """The positions of these rows, of those that a mask allows where there is one."""
        chosen: Mask = np.isin(self.rows, np.asarray(rows, np.int64))
        return chosen if allowed is None else chosen & allowed

    def top(
        self,
        vector: Vector,
        k: int,
        min_score: float | None = None,
        allowed: Mask | None = None,
    ) -> list[tuple[int, float]]:
        """The rows of the k best scores with their cosines: best first, ties by id."""
        query = normalised(np.asarray(vector, np.float64))
        chosen = self._nominees(query.astype(np.float32), k, allowed)
        exact = (self._unit[chosen] * query).sum(axis=1)
        scores = np.rint(np.minimum(np.maximum(exact, 0.0), 1.0) * _DECIMALS) / _DECIMALS
        # Positions are in the order of ids.
        order = np.lexsort((chosen, -scores))[:k]
        if min_score is not None:
            order = order[scores[order] >= min_score]
        return list(zip(self.rows[chosen[order]].tolist(), exact[order].tolist(), strict=True))

    def _nominees(self, query: Vector, k: int, allowed: Mask | None) -> NDArray[np.intp]:
        """The positions among which the k best of those that are allowed are."""
        if allowed is None:
            return _nominees(product(self._unit, query), k)
        positions = np.flatnonzero(allowed)
        if len(positions) <= k:
            return positions
        if len(positions) * _SPARSE <= len(self):
            return positions[_nominees(product(self._unit[positions], query), k)]
        return positions[_nominees(product(self._unit, query)[positions], k)]


def _nominees(cosines: Vector, k: int) -> NDArray[np.intp]:
    """The positions among which the k best are, with everything that may tie with the last."""
    count = len(cosines)
    if k >= count:
        return np.arange(count)
    floor = np.partition(cosines, count - k)[count - k] - _MARGIN
    if floor > 0:
        return np.flatnonzero(cosines >= floor)
    # All that is surely not above 0 ties at the score 0: the first k of them by id will do.
    # A product that is exactly 0 comes from vectors that share nothing, as bags of words.
    nothing = (cosines == 0) | (cosines < -_MARGIN)
    return np.concatenate([np.flatnonzero(~nothing), np.flatnonzero(nothing)[:k]])


def _fill(unit: Matrix, position: dict[int, int], fetch: Fetch) -> None:
    """Normalise the vectors of the rows in `position` into the places it gives them."""
    if not position:
        return
    places: list[int] = []
    block: list[Vector] = []
    for row, vector in fetch(list(position)):
        places.append(position[row])
        block.append(vector)
        if len(block) == _BLOCK:
            unit[places] = normalised(np.stack(block).astype(np.float64))
            places, block = [], []
    if block:
        unit[places] = normalised(np.stack(block).astype(np.float64))


def normalised(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors at length 1; one of length 0 stays, and has the cosine 0 with everything."""
    length = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    length[length == 0] = 1
    unit: NDArray[np.float64] = vectors / length
    return unit


def unit_vector(stored: bytes | Vector) -> Vector:
    """A stored vector, or the bytes of one, at length 1 in float32."""
    values = np.frombuffer(stored, "<f4") if isinstance(stored, bytes) else stored
    unit: Vector = normalised(values.astype(np.float64)).astype(np.float32)
    return unit
