"""BM25 of whole documents, from the words of their passages: with one meaning in every database."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

K1, B = 1.2, 0.75
"""Those of SQLite's FTS5."""
_LEAST = 1e-6
"""Of a word's weight: one that is in most documents still counts for something."""


class Postings(NamedTuple):
    """Where a word of a question is found."""

    weight: int
    """How often the question says it."""
    numbers: NDArray[np.int64]
    """Of passages that hold it; any of them once for each time, or together with `times`."""
    times: NDArray[np.int64] | None = None
    """How often each passage holds it; None stands for once."""


class Documents(NamedTuple):
    """Some documents whose figures are wanted, and the collection that they are part of."""

    ids: NDArray[np.int64]
    """Theirs, ascending, each once; from 0."""
    lengths: NDArray[np.float64]
    """How many words each has."""
    total: int
    """How many documents there are in all."""
    average: float
    """How many words they have on average."""


def document_figures(
    postings: Iterable[tuple[Postings, NDArray[np.int64]]], documents: Documents
) -> NDArray[np.float64]:
    """The BM25 of each document; how rare a word is, is counted over documents.

    Args:
        postings: of each word of the question, with the document of each passage.
        documents: whose figures are wanted.
    """
    figures = np.zeros(len(documents.ids))
    norm = K1 * (1 - B + B * documents.lengths / max(documents.average, 1e-9))
    for found, owners in postings:
        holding = np.bincount(owners, found.times).astype(np.float64)
        having = int(np.count_nonzero(holding))
        rarity = max(log((documents.total - having + 0.5) / (having + 0.5)), _LEAST)
        times = np.zeros(len(documents.ids))
        inside = documents.ids < len(holding)
        times[inside] = holding[documents.ids[inside]]
        figures += found.weight * rarity * times * (K1 + 1) / (times + norm)
    return figures
