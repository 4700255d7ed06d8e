"""The passages of an index that have terms of a question, and the best of them.

The score of a passage is the sum of the scores of its terms. In large indexes most of the time
would go into terms that many passages have, and those count least. So terms are added up from the
rarest, until no passage without one of those can be among the best. Only what may be among the best
is then scored by all terms.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from lorebind_knowledge.catalog.segments import live_in
from lorebind_knowledge.cosines import MARGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_knowledge.catalog.segments import Segment

MANY = 1 << 17
"""Number of passages with a term from which looking for a way around it may take less time than
adding it."""
_FEW = 8
"""Finding a passage among those of a term takes as long as adding the term to this number."""


class Passages:
    """The passages of an index version, by position: segment after segment, also those gone."""

    def __init__(self, segments: Mapping[int, Segment]) -> None:
        """
        Args:
            segments: all segments of the terms' kind, oldest first.
        """
        parts = list(segments.values())
        self.segments = segments
        self.numbers = np.concatenate([np.zeros(0, np.int64), *(part.numbers for part in parts)])
        self.lengths = np.concatenate([np.zeros(0, np.uint32), *(part.lengths for part in parts)])
        self.starts = np.cumsum([0, *(len(part.numbers) for part in parts)], dtype=np.int32)[:-1]
        """The position of the first passage of each segment."""
        live = live_in(parts)
        self.live = None if live.all() else live
        """Which passages are live; None: all."""
        self.count = int(live.sum())
        """Number of live passages."""

    @cached_property
    def longest(self) -> int:
        return int(self.lengths.max(initial=0))

    @cached_property
    def _by_number(self) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
        """The numbers of live passages, ascending, and their positions; None: in this order."""
        numbers, positions = self.numbers, None
        if self.live is not None:
            positions = np.flatnonzero(self.live)
            numbers = numbers[positions]
        if not (numbers[1:] > numbers[:-1]).all():
            order = np.argsort(numbers, kind="stable")
            numbers, positions = numbers[order], order if positions is None else positions[order]
        return numbers, positions

    @property
    def live_numbers(self) -> NDArray[np.int64]:
        """The numbers of live passages, ascending."""
        return self._by_number[0]

    def positions_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the positions of passages, -1 for numbers of which no passage is live."""
        ascending, positions = self._by_number
        if not len(ascending):
            return np.full(len(numbers), -1, np.int32)
        at = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
        there = at if positions is None else positions[at]
        return np.where(ascending[at] == numbers, there, -1).astype(np.int32)


P = TypeVar("P", bound=Passages)


class Term(ABC, Generic[P]):
    """The live passages of an index version that have a term."""

    most: float
    """No passage has a higher score for one occurrence in the question."""

    def __init__(
        self, passages: P, positions: NDArray[np.int32], weights: NDArray[np.uint8]
    ) -> None:
        """
        Args:
            passages: all of the version.
            positions: those that have the term, ascending.
            weights: the weight of the term in each of them.
        """
        self.passages, self.positions, self.weights = passages, positions, weights

    @abstractmethod
    def scores_at(self, places: NDArray[np.intp] | slice) -> NDArray[np.float64]:
        """Return the scores of some of the passages, by their places in `positions`."""

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """The scores of all of them, for one occurrence in the question."""
        return self.scores_at(slice(None))

    def find(self, positions: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which of some passages have the term, and their places here."""
        places = np.minimum(np.searchsorted(self.positions, positions), len(self.positions) - 1)
        there = np.flatnonzero(self.positions[places] == positions)
        return there, places[there]


T = TypeVar("T", bound=Term[Any])


class Matches(Generic[P, T]):
    """The terms of one question, looked up in an index at one moment."""

    def __init__(self, index: P, held: Sequence[tuple[float, T]]) -> None:
        """
        Args:
            index: the passages.
            held: the terms that passages have, with the weight of each in the question. Their order
                decides how sums are rounded.
        """
        self._index, self._held = index, held

    def best(
        self, count: int, allowed: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the numbers and scores of the best passages, and of ties with the last of them.

        The best come first. There are fewer than `count` if no more passages match.

        Args:
            count: how many passages, at least.
            allowed: the numbers of the passages that count, ascending; None means all.
        """
        inside = None
        if allowed is not None:
            inside = np.zeros(len(self._index.numbers), bool)
            positions = self._index.positions_of(allowed)
            inside[positions[positions >= 0]] = True
        if self._sums is None:
            positions = self._within_reach(count, inside)
            scores = self._scored(positions)
        else:
            positions = _matching(self._sums, inside)
            scores = self._sums[positions]
        if count < len(scores):
            least = np.partition(scores, -count)[-count] - MARGIN * scores.max()
            some = np.flatnonzero(scores >= least)
            positions, scores = positions[some], scores[some]
        order = np.argsort(-scores, kind="stable")
        return self._index.numbers[positions[order]], scores[order]

    def scores(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of live passages; 0 for a passage without any of the terms."""
        positions = self._index.positions_of(numbers)
        if self._sums is None or not len(self._sums):
            return self._scored(positions)
        return np.where(positions < 0, 0, self._sums[positions])

    @cached_property
    def _sums(self) -> NDArray[np.float64] | None:
        """The scores of all passages, by position; None if it takes long to add them up."""
        if sum(len(term.positions) for _, term in self._held) > MANY:
            return None
        sums = np.zeros(len(self._index.numbers))
        for weight, term in self._held:
            sums[term.positions] += weight * term.scores
        return sums

    def _scored(self, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the same scores of some passages."""
        scores = np.zeros(len(positions))
        for weight, term in self._held:
            there, places = term.find(positions)
            scores[there] += weight * term.scores_at(places)
        return scores

    def _within_reach(self, count: int, inside: NDArray[np.bool_] | None) -> NDArray[np.int32]:
        """Return the positions of all passages that may be among the best `count`, ascending."""
        # Sums in this order are rounded otherwise, by less than `MARGIN`.
        rarest_first = sorted(self._held, key=lambda held: len(held[1].positions))
        sums = np.zeros(len(self._index.numbers))
        some = np.zeros(0, np.int32)  # as many passages as are to be found, with a rare term
        left = sum(weight * term.most for weight, term in rarest_first)
        """The highest sum of the terms that are not added yet."""
        for weight, term in rarest_first:
            if len(term.positions) > MANY and left < sums.max():
                within = _candidates(sums, count, some, left, inside)
                if within is not None and len(within) * _FEW < len(term.positions):
                    return within
            sums[term.positions] += weight * term.scores
            left -= weight * term.most
            if len(some) < count:
                some = term.positions if inside is None else term.positions[inside[term.positions]]
        within = _candidates(sums, count, some, 0.0, inside)
        assert within is not None
        return within


def _matching(
    sums: NDArray[np.float64], inside: NDArray[np.bool_] | None, above: float = 0.0
) -> NDArray[np.int32]:
    """Return the positions of passages whose sum is higher, ascending, of those that are inside."""
    matching = np.flatnonzero(sums > above).astype(np.int32)
    return matching if inside is None else matching[inside[matching]]


def _candidates(
    sums: NDArray[np.float64],
    count: int,
    some: NDArray[np.int32],
    left: float,
    inside: NDArray[np.bool_] | None,
) -> NDArray[np.int32] | None:
    """Return the positions of passages that may be among the best `count`, ascending.

    None: passages without a sum may be among them.

    Args:
        sums: the scores so far, by position.
        count: the number of passages to find.
        some: passages that count, whose scores are likely to be high.
        left: the most that may be added to a score.
        inside: which passages count; None means all.
    """
    slack = left + 2 * MARGIN * (sums.max(initial=0.0) + left)
    least = 0.0
    for _ in range(2):  # the second time among few, which have the best
        if len(some) >= count:
            least = max(np.partition(sums[some], -count)[-count] - slack, 0.0)
        some = _matching(sums, inside, least)
    return some if least or not left else None


def values_of(keys: NDArray[Any], values: NDArray[Any], looked_up: NDArray[Any]) -> NDArray[Any]:
    """Return the values of some keys; 0 for a missing key.

    Args:
        keys: unique and ascending.
        values: one per key.
        looked_up: any keys.
    """
    if not len(keys):
        return np.zeros(len(looked_up), values.dtype)
    at = np.minimum(np.searchsorted(keys, looked_up), len(keys) - 1)
    return np.where(keys[at] == looked_up, values[at], 0)
