"""The terms that a sparse embedder gave to the passages of an index, scored by a question's terms.

The score of a passage is the product of its terms with the question's. Each term counts by its
rarity too, because a term that most passages have tells them apart no better than a common word.
"""

from __future__ import annotations

from functools import cached_property
from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.catalog.postings import MAX_WEIGHT, TERMS
from lorebind_knowledge.catalog.terms import UNIT
from lorebind_knowledge.index.postings_cache import Passages, PostingsCache, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.postings import Segment
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.records import SparseVector


class _Term:
    """The passages of an index version that have a term, and their weights times its rarity."""

    def __init__(
        self, passages: Passages, positions: NDArray[np.int32], weights: NDArray[np.uint8]
    ) -> None:
        self.positions = positions
        count = len(positions)
        rarity = log1p((len(passages.numbers) - count + 0.5) / (count + 0.5))
        largest = passages.lengths[positions] / UNIT
        self.scores: NDArray[np.float64] = rarity / MAX_WEIGHT * weights * largest


class Terms:
    """The terms of an index, cached between searches. Safe to share among threads."""

    def __init__(self, index_uid: int) -> None:
        def passages(_: Sql, segments: Mapping[int, Segment], __: Passages | None) -> Passages:
            return Passages(segments)

        self.cache = PostingsCache(index_uid, TERMS, passages, _Term)

    def at(self, sql: Sql, version: int, question: SparseVector) -> QueryTerms:
        """Look up the terms of a question in the version of the index that a transaction sees."""
        passages = self.cache.passages(sql, version)
        weights = dict(zip(question.ids.tolist(), question.weights.tolist(), strict=True))
        in_index = self.cache.look_up(sql, passages, [str(term) for term in weights])
        return QueryTerms(
            passages,
            {
                term: (weight, in_index[str(term)])
                for term, weight in weights.items()
                if str(term) in in_index
            },
        )


class QueryTerms:
    """The terms of one question, looked up in an index at one moment."""

    def __init__(self, index: Passages, held: Mapping[int, tuple[float, _Term]]) -> None:
        self._index, self._held = index, held
        """For each term, its weight in the question, and its passages."""

    @cached_property
    def passages(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The numbers of all passages that have any of the terms, ascending, and their scores."""
        scores = np.zeros(len(self._index.numbers))
        for weight, term in self._held.values():
            scores[term.positions] += weight * term.scores
        there = np.flatnonzero(scores)
        return self._index.numbers[there], scores[there]

    def scores(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of passages; 0 for a passage without any of the terms."""
        return values_of(*self.passages, numbers)

    def shares(self, number: int) -> dict[int, float]:
        """Return by how much each term raises the score of a passage, most first."""
        at = int(np.searchsorted(self._index.numbers, number))
        shares = {}
        for term, (weight, of_term) in self._held.items():
            place = int(np.searchsorted(of_term.positions, at))
            if place < len(of_term.positions) and of_term.positions[place] == at:
                shares[term] = weight * float(of_term.scores[place])
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
