"""The product of an exact search."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lorebind_knowledge.stores.product import product

ROWS = 20_011


@pytest.mark.parametrize("rows", [0, 1, 3000, ROWS])
def test_same_as_numpy(rows: int) -> None:
    """Every row is multiplied once, in any thread, within float32's precision."""
    rng = np.random.default_rng(rows)
    matrix = rng.standard_normal((rows, 384)).astype(np.float32)
    vector = rng.standard_normal(384).astype(np.float32)
    figures = product(matrix, vector)
    assert figures.dtype == np.float32
    np.testing.assert_allclose(figures, matrix.astype(np.float64) @ vector, atol=1e-4)


def test_many_at_a_time() -> None:
    """Concurrent searches that share the helper threads get exactly their own products."""
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((ROWS, 384)).astype(np.float32)
    vectors = rng.standard_normal((16, 384)).astype(np.float32)
    alone = [product(matrix, vector) for vector in vectors]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda vector: product(matrix, vector), vectors))
    np.testing.assert_array_equal(together, alone)


def test_equal_rows_have_equal_figures() -> None:
    """A row's product does not depend on its position in the matrix."""
    rng = np.random.default_rng(7)
    matrix = np.tile(rng.standard_normal(384).astype(np.float32), (ROWS, 1))
    assert len(set(product(matrix, rng.standard_normal(384).astype(np.float32)).tolist())) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_after_a_fork() -> None:
    """A child process does not wait for threads that only its parent has."""
    matrix = np.ones((ROWS, 384), np.float32)
    vector = np.ones(384, np.float32)
    product(matrix, vector)
    child = os.fork()
    if child == 0:
        os._exit(0 if (product(matrix, vector) == 384).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
