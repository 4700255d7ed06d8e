"""Finding records by their words in Qdrant: a sparse vector nominates, exact BM25 decides.

The words are those of SQLite's FTS5 with its Porter stemmer, which also says how the figure is
made (k1 1.2, b 0.75; https://sqlite.org/fts5.html), so that they agree with `SqliteStore`. How
rare a word is, and how long a record usually is, are counted over the published records of the one
index that is searched: its totals stand in its head, and the server counts the records of each
word of the question.

The sparse vector holds each word's weight for the length that records usually have, as it was
known when the first of them was staged. How far the true figure can be above that one is known, so
nominees are asked for until no other can belong to the answer, or until they are `_MOST`: where
more records than that match about equally well, the last places are approximate.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.stores.lexical import best_matches
from lorebind_knowledge.stores.qdrant.connection import qdrant
from lorebind_knowledge.stores.qdrant.points import (
    LEXICAL,
    OURS,
    searched,
    searched_text,
    visible,
    where_any,
    where_field,
    word_hash,
)
from lorebind_knowledge.stores.stems import count_stems
from lorebind_knowledge.stores.terms import terms

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.filters import Predicate
    from lorebind_knowledge.records import DocumentMatch, SearchOptions
    from lorebind_knowledge.stores.qdrant.heads import Head
    from lorebind_knowledge.stores.qdrant.points import Points

_K1 = 1.2
_B = 0.75
_RAREST = 1e-6
"""What FTS5 gives a word that half of the records or more have."""
_MARGIN = 2e-6
_FIRST = 4
_GROWTH = 4
_MOST = 4096
_COUNTED_ONE_BY_ONE = 24
"""A question of more words is a page; all words of the records that share one are counted then."""


def sparse_weights(words: Mapping[str, int], usual_tokens: float) -> dict[int, float]:
    """A record's sparse vector. Words whose hashes meet share a place."""
    length = sum(words.values())
    weights: dict[int, float] = {}
    for stem, count in words.items():
        place = word_hash(stem)
        weights[place] = weights.get(place, 0.0) + _saturation(count, length, usual_tokens)
    return weights


class LexicalSearch:
    """One search of one index at one version."""

    def __init__(
        self, points: Points, head: Head, options: SearchOptions, allows: Predicate
    ) -> None:
        self._points, self._head, self._options = points, head, options
        self._allows = allows
        self._usual = head.tokens / head.records or 1.0

    def run(self, query: str) -> list[DocumentMatch]:
        """The matches, best first."""
        weights = self._weights(query)
        if not weights:
            return []
        models = qdrant("qdrant_client.models")
        asked: dict[int, float] = {}
        for stem, weight in weights.items():
            asked[word_hash(stem)] = asked.get(word_hash(stem), 0.0) + weight
        vector = models.SparseVector(indices=list(asked), values=list(asked.values()))
        return self._best(vector, weights)

    def _weights(self, query: str) -> dict[str, float]:
        """How much each word of the question counts, without those that no record has."""
        (words,) = count_stems([" ".join(terms(query))])
        held = visible(self._head)
        if len(words) > _COUNTED_ONE_BY_ONE:
            holding = self._points.facet("stems", [*held, where_any("stems", sorted(words))])
        else:
            holding = {
                stem: self._points.count([*held, where_field("stems", stem)]) for stem in words
            }
        return {
            stem: times * _rarity(holding[stem], self._head.records)
            for stem, times in words.items()
            if holding.get(stem)
        }

    def _best(self, vector: Any, weights: Mapping[str, float]) -> list[DocumentMatch]:
        conditions, _ = searched(self._head, self._options)
        # By how much a figure may exceed what the sparse vector gives.
        excess = max(1.0, self._usual / max(self._head.usual_tokens, 1.0))
        limit = _FIRST * self._options.top_k
        while True:
            found = self._points.query(vector, conditions, limit, using=LEXICAL, with_payload=True)
            matches = self._ranked(found, weights)
            if len(found) < limit or limit >= _MOST:
                return matches
            if len(matches) == self._options.top_k:
                last, best = (matches[at].scores["lexical"] for at in (-1, 0))
                if last - _MARGIN * best > excess * found[-1].score:
                    return matches
            limit = min(limit * _GROWTH, _MOST)

    def _ranked(self, found: Sequence[Any], weights: Mapping[str, float]) -> list[DocumentMatch]:
        rows = []
        for point, words in zip(found, count_stems(list(map(searched_text, found))), strict=True):
            figure = self._bm25(words, weights)
            if figure > 0:  # else it was the hash of a word that met another's
                ours, text = point.payload[OURS], point.payload["page_content"]
                rows.append((ours["id"], text, ours["metadata"], ours["generation"], figure))
        rows.sort(key=lambda row: -row[-1])
        return best_matches(rows, self._allows, self._options.top_k)

    def _bm25(self, words: Counter[str], weights: Mapping[str, float]) -> float:
        length = words.total()
        return math.fsum(
            weight * _saturation(words[stem], length, self._usual)
            for stem, weight in weights.items()
            if words[stem]
        )


def _rarity(holding: int, records: int) -> float:
    rarity = math.log((records - holding + 0.5) / (holding + 0.5))
    return rarity if rarity > 0 else _RAREST


def _saturation(count: int, length: int, usual_length: float) -> float:
    return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / usual_length))
