"""Exact search in memory: every vector of a space in one matrix, one product per query.

The product is computed in float32, which is fast, and only selects candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.base import SearchHits
from lorebind_knowledge.stores.product import product

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Partition, Vector
    from lorebind_knowledge.stores.base import StoredVector

    Numbers: TypeAlias = NDArray[np.int64]
    Fetch: TypeAlias = Callable[[Numbers], Iterable[tuple[Numbers, Matrix]]]
    """A function that takes ascending numbers and yields batches of them with their vectors."""

# Larger than float32's error in a product of unit vectors.
_MARGIN = 1e-5
# Relative cost of a row that is copied before it is multiplied.
_SPARSE = 8
# Range of the numbers per vector, up to which a table of it is faster than a search in them.
_RANGE = 16
# Rows that are copied at a time: few enough for a processor's cache.
_BLOCK = 1024


class ExactMatrix:
    """Vectors with their numbers, in ascending order of numbers. Immutable."""

    __slots__ = ("_vectors", "numbers")

    def __init__(self, numbers: Numbers, vectors: Matrix) -> None:
        self.numbers, self._vectors = numbers, vectors

    @classmethod
    def empty(cls, dimension: int) -> ExactMatrix:
        return cls(np.empty(0, np.int64), np.empty((0, dimension), np.float32))

    def __len__(self) -> int:
        return len(self.numbers)

    def replaced(self, numbers: Numbers, fetch: Fetch) -> ExactMatrix:
        """Return a matrix of these numbers; existing vectors are not fetched again.

        Args:
            numbers: unique and ascending.
            fetch: returns all missing vectors.
        """
        vectors = np.empty((len(numbers), self._vectors.shape[1]), np.float32)
        old, here = self._find(numbers)
        new = np.flatnonzero(here)
        for start in range(0, len(new), _BLOCK):
            part = slice(start, start + _BLOCK)
            vectors[new[part]] = self._vectors[old[part]]
        missing = numbers[~here]
        if len(missing):
            for fetched, block in fetch(missing):
                vectors[np.searchsorted(numbers, fetched)] = block
        return ExactMatrix(numbers, vectors)

    def nearest(
        self, vector: Vector, k: int, allowed_ids: Collection[int] | None = None
    ) -> SearchHits:
        """Return at least the `k` nearest to a vector, nearest first, with all possible ties.

        Args:
            vector: float32, of length 1.
            k: at least 1.
            allowed_ids: only these numbers; None means all.
        """
        if allowed_ids is None:
            positions, figures = None, product(self._vectors, vector)
        else:
            positions = self._positions(allowed_ids)
            if len(positions) * _SPARSE <= len(self):
                figures = product(self._vectors.take(positions, axis=0), vector)
            else:
                figures = product(self._vectors, vector)[positions]
        best = _best(figures, k)
        if positions is not None:
            best = positions[best]
        return SearchHits(self.numbers[best].tolist(), self._vectors[best])

    def get(self, numbers: Collection[int]) -> dict[int, Vector]:
        """Return the vectors of the numbers that exist."""
        positions = self._positions(numbers)
        return dict(zip(self.numbers[positions].tolist(), self._vectors[positions], strict=True))

    def _positions(self, numbers: Collection[int]) -> NDArray[np.intp]:
        """Return the positions of the numbers that exist, ascending."""
        some: Numbers = (
            numbers
            if isinstance(numbers, np.ndarray)
            else np.fromiter(numbers, np.int64, len(numbers))
        )
        if len(some) * _SPARSE > len(self) > 0:
            first, last = self.numbers[0], self.numbers[-1]
            if last - first < len(self) * _RANGE:
                is_included = np.zeros(last - first + 1, np.bool_)
                is_included[some[(some >= first) & (some <= last)] - first] = True
                return np.flatnonzero(is_included[self.numbers - first])
        ordered = np.sort(some)
        again = np.zeros(len(ordered), np.bool_)
        again[1:] = ordered[1:] == ordered[:-1]
        return self._find(ordered[~again])[0]

    def _find(self, numbers: Numbers) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the positions of ascending numbers that exist, and which of them exist."""
        positions = np.searchsorted(self.numbers, numbers)
        here = positions < len(self)
        here[here] = self.numbers[positions[here]] == numbers[here]
        return positions[here], here


def stacked(space: Partition, vectors: Sequence[StoredVector]) -> Matrix:
    """Copy vectors into one matrix.

    Raises:
        StoreError: one of them has another dimension than the space.
    """
    check_dimension(space, vectors)
    return np.array([vector.vector for vector in vectors], "<f4").reshape(-1, space.dimension)


def check_dimension(space: Partition, vectors: Sequence[StoredVector]) -> None:
    """
    Raises:
        StoreError: one of the vectors has another dimension than the space.
    """
    for vector in vectors:
        if vector.vector.shape != (space.dimension,):
            raise StoreError(
                f"{space}: vector {vector.number} has the shape {vector.vector.shape}, "
                f"expected the dimension {space.dimension}"
            )


def _best(figures: Vector, k: int) -> NDArray[np.intp]:
    """Return the positions of the best `k` and of all possible ties with the last, best first."""
    count = len(figures)
    if k >= count:
        chosen = np.arange(count)
    elif (last := np.partition(figures, count - k)[count - k]) > 0:
        chosen = np.flatnonzero(figures >= last - _MARGIN)
        if last <= _MARGIN:
            # A product of exactly 0 comes from vectors with nothing in common, as in bags of words.
            chosen = chosen[figures[chosen] != 0]
    else:
        # All that are not above 0 tie at score 0; the caller chooses among all of them by id.
        chosen = np.argpartition(figures, count - k)[count - k :]
    return chosen[np.argsort(-figures[chosen], kind="stable")]
