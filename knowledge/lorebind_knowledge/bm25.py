"""BM25 as SQLite's FTS5 computes it, over the passages of an index or over its documents.

https://www.sqlite.org/fts5.html#the_bm25_function
"""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1, B = 1.2, 0.75
_LEAST = 1e-6
"""Minimum weight of a word, so that a word in most passages still counts."""


class Postings(NamedTuple):
    """The passages that contain a word."""

    numbers: NDArray[np.int64]
    """Numbers of the passages, ascending, without duplicates."""
    times: NDArray[np.int64]
    """The number of occurrences in each of these passages."""


def idf(count: int, having: int) -> float:
    """Return the weight of a word that `having` of `count` passages, or documents, contain."""
    return max(log((count - having + 0.5) / (having + 0.5)), _LEAST)


def tf_saturation(times: Any, lengths: Any, average: float) -> Any:
    """Return what a word that occurs `times` in texts of `lengths` words counts, elementwise."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))
