"""BM25, as SQLite's FTS5 reckons it, over the passages of an index or over its documents.

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
"""Of a word's weight: one that is in most passages still counts for something."""


class Postings(NamedTuple):
    """Where a word is found."""

    numbers: NDArray[np.int64]
    """Of the passages that hold it, ascending, each once."""
    times: NDArray[np.int64]
    """How often each of them holds it."""


def rarity(count: int, having: int) -> float:
    """How much a word weighs that so many of `count` passages, or documents, have."""
    return max(log((count - having + 0.5) / (having + 0.5)), _LEAST)


def saturated(times: Any, lengths: Any, average: float) -> Any:
    """What a word counts for that comes so many times in texts of so many words, elementwise."""
    return times * (K1 + 1) / (times + K1 * (1 - B + B * lengths / average))
