"""The exact search that the stores in memory and in SQLite share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lorebind_knowledge.stores.matrix import ExactMatrix, score_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.records import Matrix


def built(vectors: Matrix, ids: Sequence[str]) -> ExactMatrix:
    return ExactMatrix.empty(vectors.shape[1]).replaced(
        ((name, at) for at, name in enumerate(ids)), lambda rows: ((r, vectors[r]) for r in rows)
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_same_as_sorting_everything(data: st.DataObject) -> None:
    """The best k are those that sorting all scores would give, with many ties, masks and zeros."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    count, dimension = data.draw(st.integers(1, 300)), data.draw(st.integers(1, 9))
    kinds = rng.standard_normal((data.draw(st.integers(1, 12)), dimension))
    kinds *= rng.random(kinds.shape) < data.draw(st.sampled_from([0.3, 1.0]))
    vectors = kinds[rng.integers(0, len(kinds), count)].astype(np.float32)
    ids = [f"{n:04d}" for n in rng.permutation(count)]
    query = rng.standard_normal(dimension).astype(np.float32)
    k = data.draw(st.integers(1, count + 1))
    share = data.draw(st.sampled_from([0.05, 0.5, None]))
    allowed = None if share is None else rng.random(count) < share

    found = built(vectors, ids).top(query, k, data.draw(st.sampled_from([None, 0.0])), allowed)

    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(query.astype(np.float64))
    cosines = np.divide(exact @ query, lengths, out=np.zeros(count), where=lengths > 0)
    by_id = sorted(range(count), key=ids.__getitem__)
    rows = [row for at, row in enumerate(by_id) if allowed is None or allowed[at]]
    expected = sorted(rows, key=lambda row: (-score_of(cosines[row]), ids[row]))[:k]
    assert [score_of(cosine) for _, cosine in found] == pytest.approx(
        [score_of(cosines[row]) for row in expected], abs=1.1e-6
    )
    assert [row for row, _ in found] == expected


@pytest.mark.parametrize("count", [5, 64, 1021])
def test_ties_survive_the_product(count: int) -> None:
    """Equal texts tie wherever they stand, though a float32 product differs in the last digits."""
    rng = np.random.default_rng(3)
    vectors = np.tile(rng.standard_normal(384).astype(np.float32), (count, 1))
    matrix = built(vectors, [f"{n:04d}" for n in range(count)])
    for query in rng.standard_normal((50, 384)).astype(np.float32) + vectors[0]:
        found = matrix.top(query, 4)
        assert [row for row, _ in found] == [0, 1, 2, 3]
        assert len({score_of(cosine) for _, cosine in found}) == 1


@given(st.lists(st.sets(st.integers(0, 40)), max_size=8))
def test_replacing_is_the_same_as_building(steps: list[set[int]]) -> None:
    """A matrix brought up to date is the one built anew, and fetches only what it lacks."""
    vectors = np.random.default_rng(1).standard_normal((41, 5)).astype(np.float32)
    matrix, before = ExactMatrix.empty(5), set[int]()
    for rows in steps:
        fetched: list[int] = []

        def fetch(missing: Sequence[int], fetched: list[int] = fetched):
            fetched.extend(missing)
            return ((row, vectors[row]) for row in missing)

        matrix = matrix.replaced(((f"{row:02d}", row) for row in rows), fetch)
        assert set(fetched) == rows - before
        assert matrix.rows.tolist() == sorted(rows)
        if rows:
            (best,) = matrix.top(vectors[max(rows)], 1)
            assert best == (max(rows), pytest.approx(1.0))
        before = rows


def test_block_by_block() -> None:
    """More rows than are loaded at a time all get their own vector."""
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((10_000, 3)).astype(np.float32)
    matrix = built(vectors, [f"{n:05d}" for n in range(10_000)])
    fewer = matrix.replaced(((f"{n:05d}", n) for n in range(0, 10_000, 2)), lambda _: ())
    for row in (0, 4096, 9998):
        assert matrix.top(vectors[row], 1)[0][0] == row
        assert fewer.top(vectors[row], 1)[0][0] == row


@pytest.mark.parametrize(
    ("cosine", "score"),
    [(-1, 0.0), (-0.0, 0.0), (0.1234564, 0.123456), (1.0000001, 1.0), (4e-7, 0.0), (0.3, 0.3)],
)
def test_score(cosine: float, score: float) -> None:
    """A score is the cosine clipped to [0, 1] with 6 decimals, and never a negative zero."""
    assert str(score_of(cosine)) == str(score)
