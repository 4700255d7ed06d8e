"""The terms that a sparse embedder gave to the passages of an index, scored by a question's terms.

The score of a passage is the product of its terms with the question's. Each term counts by its
rarity too, because a term that most passages have tells them apart no better than a common word.
"""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.catalog.postings import MAX_WEIGHT, TERMS
from lorebind_knowledge.catalog.terms import UNIT
from lorebind_knowledge.index.matches import Matches, Passages, Term
from lorebind_knowledge.index.postings_cache import PostingsCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.segments import Segment
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.records import SparseVector


class _Term(Term[Passages]):
    """The passages of an index version that have a term, and their weights times its rarity."""

    def __init__(
        self, passages: Passages, positions: NDArray[np.int32], weights: NDArray[np.uint8]
    ) -> None:
        super().__init__(passages, positions, weights)
        count = len(positions)
        self._idf = log1p((passages.count - count + 0.5) / (count + 0.5))
        self.most = self._idf * int(weights.max()) / MAX_WEIGHT * passages.longest / UNIT

    def scores_at(self, places: NDArray[np.intp] | slice) -> NDArray[np.float64]:
        largest = self.passages.lengths[self.positions[places]] / UNIT
        scores: NDArray[np.float64] = self._idf / MAX_WEIGHT * self.weights[places] * largest
        return scores


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


class QueryTerms(Matches[Passages, _Term]):
    """The terms of one question, looked up in an index at one moment."""

    def __init__(self, index: Passages, held: Mapping[int, tuple[float, _Term]]) -> None:
        """
        Args:
            index: the passages.
            held: for each term that passages have, its weight in the question.
        """
        super().__init__(index, list(held.values()))
        self._ids = list(held)

    def shares(self, number: int) -> dict[int, float]:
        """Return by how much each term raises the score of a passage, most first."""
        position = self._index.positions_of(np.array([number]))
        shares = {}
        for name, (weight, term) in zip(self._ids, self._held, strict=True):
            _, places = term.find(position)
            if len(places):
                shares[name] = weight * float(term.scores_at(places)[0])
        return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
