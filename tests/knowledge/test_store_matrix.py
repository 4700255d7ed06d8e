"""The exact search that the memory and SQLite stores share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_config.errors import StoreError
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.matrix import ExactMatrix, stacked
from lorebind_knowledge.testing.store_driver import space, vectors
from tests.density import examples


def built(matrix: np.ndarray, numbers: np.ndarray) -> ExactMatrix:
    order = np.argsort(numbers)
    return ExactMatrix.empty(matrix.shape[1]).replaced(
        numbers[order], lambda missing: [(missing, matrix[order])]
    )


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_same_as_sorting_everything(data: st.DataObject) -> None:
    """Nominees are the best k of all cosines above 0 with all ties, even under a mask."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count, dimension = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 9))
    kinds = rng.standard_normal((data.draw(st.integers(1, 12)), dimension))
    kinds *= rng.random(kinds.shape) < data.draw(st.sampled_from([0.3, 1.0]))
    lengths = np.linalg.norm(kinds, axis=1, keepdims=True)
    kinds = np.divide(kinds, lengths, out=kinds, where=lengths > 0)
    matrix = kinds[rng.integers(0, len(kinds), count)].astype(np.float32)
    numbers = rng.choice(10 * count, count, replace=False).astype(np.int64) + 1
    query = vectors(1, dimension, seed=int(rng.integers(0, 2**32)))[0]
    k = data.draw(st.integers(1, count + 1))
    share = data.draw(st.sampled_from([0.05, 0.5, None]))
    allowed = np.ones(count, np.bool_) if share is None else rng.random(count) < share
    allowed_ids = None if share is None else numbers[allowed]
    if allowed_ids is not None and data.draw(st.booleans()):
        allowed_ids = [*allowed_ids.tolist(), *allowed_ids.tolist()[:3], 10 * count + 5]

    hits = built(matrix, numbers).nearest(query, k, allowed_ids)

    exact = dict(zip(numbers.tolist(), (matrix.astype(np.float64) @ query).tolist(), strict=True))
    inside = numbers[allowed].tolist()
    assert len(set(hits.numbers)) == len(hits.numbers) >= min(k, len(inside))
    assert set(hits.numbers) <= set(inside)
    figures = [exact[number] for number in hits.numbers]
    assert (np.diff(figures) <= 1e-6).all()
    if len(inside) > k:
        last = sorted((exact[number] for number in inside), reverse=True)[k - 1]
        needed = {n for n in inside if exact[n] > last + 1e-6}
        if last > 1e-6:
            needed = {n for n in inside if exact[n] >= last - 1e-6}
        assert needed <= set(hits.numbers)
        assert min(figures) >= last - 1.1e-5
    rows = dict(zip(numbers.tolist(), matrix, strict=True))
    for number, row in zip(hits.numbers, hits.vectors, strict=True):
        np.testing.assert_array_equal(row, rows[number])


@pytest.mark.parametrize("count", [5, 64, 1021])
def test_ties_survive_the_product(count: int) -> None:
    """Equal vectors are nominated together, though float32 products may differ a little."""
    matrix = np.tile(vectors(1, 384, seed=3), (count, 1))
    exact = built(matrix, np.arange(1, count + 1))
    for query in vectors(50, 384, seed=4):
        towards = query if query @ matrix[0] > 0 else -query
        assert exact.nearest(towards, 4).numbers == list(range(1, count + 1))
        assert len(exact.nearest(-towards, 4).numbers) == 4


@given(st.lists(st.sets(st.integers(1, 41)), max_size=8))
def test_replacing_is_the_same_as_building(steps: list[set[int]]) -> None:
    """An updated matrix equals a new one, fetches only new vectors, and keeps the previous."""
    values = vectors(42, 5, seed=1)
    matrix, before = ExactMatrix.empty(5), set[int]()
    for step in steps:
        fetched: list[int] = []

        def fetch(
            missing: np.ndarray, fetched: list[int] = fetched
        ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
            fetched.extend(missing.tolist())
            for start in range(0, len(missing), 3):
                part = missing[start : start + 3][::-1]
                yield part, values[part]

        older, matrix = matrix, matrix.replaced(np.array(sorted(step), np.int64), fetch)
        assert sorted(fetched) == sorted(step - before)
        for view, numbers in ((matrix, step), (older, before)):
            assert view.numbers.tolist() == sorted(numbers)
            stored = view.get(range(50))
            assert sorted(stored) == sorted(numbers)
            for number in numbers:
                np.testing.assert_array_equal(stored[number], values[number])
        before = step


def test_block_by_block() -> None:
    """With more rows than are copied at a time, each keeps its own vector."""
    matrix = vectors(10_000, 3, seed=2)
    exact = built(matrix, np.arange(10_000))
    fewer = exact.replaced(np.arange(0, 10_000, 2), lambda _: ())
    for number in (0, 4096, 9998):
        assert number in exact.nearest(matrix[number], 1).numbers
        assert number in fewer.nearest(matrix[number], 1).numbers
    assert len(fewer) == 5000
    assert sorted(fewer.get(np.arange(10_000))) == list(range(0, 10_000, 2))


def test_another_dimension() -> None:
    """A vector of another dimension is refused, with both dimensions."""
    added = [StoredVector(1, vectors(1, 4)[0], "", {}), StoredVector(2, vectors(1, 7)[0], "", {})]
    with pytest.raises(StoreError, match=r"index acme/.* #1: vector 2 .*\(7,\), .* dimension 4"):
        stacked(space(4), added)
