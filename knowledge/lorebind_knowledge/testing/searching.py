"""The conformance tests of `nearest`, which `VectorStoreConformance` inherits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lorebind_knowledge.testing.store_driver import (
    FILTERED,
    TOLERANCE,
    Driver,
    StoreConformance,
    cosines,
    space,
    vector,
    vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lorebind_knowledge.records import Matrix, Vector
    from lorebind_knowledge.stores.base import SearchHits


class SearchingConformance(StoreConformance):
    """The tests of searching, for every `VectorStore`."""

    many = 2500
    """Number of vectors added in one call. Lower it for a slow database."""

    async def test_an_empty_space(self, to: Driver) -> None:
        """An empty space has no hits."""
        assert await to.hits() == []
        assert await to.hits(allowed_ids=[1, 2]) == []

    @pytest.mark.parametrize(("dimension", "count"), [(1, 7), (4, 60), (384, 120)])
    async def test_the_nearest(self, to: Driver, dimension: int, count: int) -> None:
        """The `k` nearest by exact cosine are nominated, nearest first, for any `k`."""
        to = to.about(space(dimension))
        matrix = vectors(count, dimension)
        await to.add(range(1, count + 1), matrix)
        missed = requested = 0
        for query in vectors(8, dimension, seed=1):
            for k in (1, 2, 10, count - 1, count, count + 7):
                missed += check(await to.nearest(query, k), matrix, query, k)
                requested += min(k, count)
        assert missed <= (0 if to.store.is_exact else requested / 10)

    async def test_ties(self, to: Driver) -> None:
        """If equal vectors are around the k-th, there are at least `k` hits."""
        first, other = vectors(2, seed=2)
        matrix = np.array([other, first, first, other, first, first, -first, first, *vectors(20)])
        await to.add(range(1, len(matrix) + 1), matrix)
        for query in (first, other, *vectors(4, seed=3)):
            for k in range(1, 12):
                missed = check(await to.nearest(query, k), matrix, query, k)
                assert not missed or not to.store.is_exact

    async def test_fewer_than_asked(self, to: Driver) -> None:
        """There are fewer than `k` hits only if the space has no more."""
        await to.add(range(1, 6), vectors(5))
        assert await to.hits(k=5) == await to.hits(k=10_000) == [1, 2, 3, 4, 5]
        assert len(await to.hits(k=4)) >= 4

    async def test_behind_the_question(self, to: Driver) -> None:
        """Vectors at a right angle to the question, or pointing away from it, are found too."""
        matrix = np.array([vector(-1, 0, 0, 0), vector(0, 1, 0, 0), vector(-0.6, 0.8, 0, 0)])
        await to.add([1, 2, 3], matrix)
        hits = await to.nearest(vector(1, 0, 0, 0), 3)
        assert [int(number) for number in hits.numbers] == [2, 3, 1]

    async def test_vectors_of_length_0(self, to: Driver) -> None:
        """Vectors of length 0 are nominated if `k` is large enough, and returned as zeros."""
        matrix = np.array([vector(0, 0, 0, 0), vector(1, 0, 0, 0), vector(0, 0, 0, 0)])
        await to.add([1, 2, 3], matrix)
        hits = await to.nearest(vector(0.8, 0.6, 0, 0), 3)
        assert sorted(int(number) for number in hits.numbers) == [1, 2, 3]
        assert int(hits.numbers[0]) == 2
        check_vectors(hits, matrix)
        for zero in (await to.get(1, 3)).values():
            assert zero is None or not zero.any()

    async def test_many(self, to: Driver) -> None:
        """Thousands of vectors are added, nominated, returned and deleted in one call each."""
        count = self.many
        matrix = vectors(count)
        numbers = list(range(1, count + 1))
        await to.add(numbers, matrix)
        assert await to.counts(count)
        query = vectors(1, seed=4)[0]
        most = count * 3 // 5
        missed = check(await to.nearest(query, most), matrix, query, most)
        assert missed <= (0 if to.store.is_exact else most // 10)
        assert sorted(await to.get(*numbers)) == numbers
        await to.delete(*numbers[100:])
        assert await to.hits(k=count) == numbers[:100]
        assert await to.counts(100)

    # Filtering

    @pytest.mark.parametrize("kind", [list, set, frozenset, np.array])
    async def test_among(self, to: Driver, kind: Callable[[list[int]], Collection[int]]) -> None:
        """Only the given numbers are nominated, unless the store ignores them."""
        if to.store.filters:
            pytest.skip("a store that filters never gets numbers to search among")
        matrix = vectors(60)
        await to.add(range(1, 61), matrix)
        for some in ([7], [30, 2, 59, 14], list(range(1, 61)), list(range(40, 4000, 3)), [99]):
            inside = [number for number in some if number <= 60]
            for k in (1, 3, 60):
                for query in vectors(3, seed=5):
                    hits = await to.nearest(query, k, allowed_ids=kind(some))
                    numbers = [int(number) for number in hits.numbers]
                    if set(numbers) <= set(inside):
                        there = np.array(inside, np.int64)
                        missed = check(hits, matrix[there - 1], query, k, there.tolist())
                    else:
                        missed = check(hits, matrix, query, k)
                    assert not missed or not to.store.is_exact

    @pytest.mark.parametrize(("shelf", "filters"), FILTERED, ids=["values", "ranges"])
    async def test_filters(self, to: Driver, shelf: Any, filters: Any) -> None:
        """Nothing that passes a filter is missing; other vectors may be included."""
        numbers = range(1, len(shelf) + 1)
        await to.add(numbers, vectors(len(shelf)), metadata=list(shelf.values()))
        for where, expected in filters:
            passing = [n for n, name in zip(numbers, shelf, strict=True) if name in expected]
            hits = await to.hits(where=where)
            assert set(passing) <= set(hits) <= set(numbers), where


def check(
    hits: SearchHits,
    matrix: Matrix,
    query: Vector,
    k: int,
    numbers: Sequence[int] | None = None,
) -> int:
    """Check hits against all vectors; return how many of the true `k` nearest are missing.

    Args:
        hits: the result of the store.
        matrix: all vectors of the store.
        query: the vector that was searched for.
        k: the requested number.
        numbers: the numbers of the vectors; by default from 1.
    """
    names = range(1, len(matrix) + 1) if numbers is None else numbers
    position = {number: at for at, number in enumerate(names)}
    exact = cosines(matrix, query)
    positions = [position[int(number)] for number in hits.numbers]
    assert len(set(positions)) == len(positions)
    figures = exact[positions]
    assert (np.diff(figures) <= TOLERANCE).all()
    check_vectors(hits, matrix[positions], [names[at] for at in positions])
    expected = min(k, len(matrix))
    if not expected:
        return 0
    last = np.sort(exact)[-expected]
    nearer = set(np.flatnonzero(exact > last + TOLERANCE).tolist())
    enough = int((figures >= last - TOLERANCE).sum())
    return max(len(nearer - set(positions)), expected - enough, 0)


def check_vectors(hits: SearchHits, matrix: Matrix, numbers: Sequence[int] | None = None) -> None:
    """Check that the vectors in a store's result are those that were added."""
    if hits.vectors is None:
        return
    names = range(1, len(matrix) + 1) if numbers is None else numbers
    position = {number: at for at, number in enumerate(names)}
    expected = matrix[[position[int(number)] for number in hits.numbers]]
    assert hits.vectors.dtype == np.float32
    np.testing.assert_allclose(hits.vectors, expected, atol=1e-6)
