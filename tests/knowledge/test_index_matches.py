"""The best passages for some terms are those of plain scoring, whatever is skipped on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lorebind_knowledge.catalog.segments import Segment
from lorebind_knowledge.cosines import MARGIN
from lorebind_knowledge.index import matches
from lorebind_knowledge.index.matches import Matches, Passages, Term

SIZES = [700, 300, 60, 60, 5]


class Weighed(Term[Passages]):
    """A term whose scores are weights divided by lengths, times its rarity."""

    def __init__(self, rarity: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._idf = rarity
        self.most = rarity * int(self.weights.max())

    def scores_at(self, places: Any) -> Any:
        return self._idf * self.weights[places] / self.passages.lengths[self.positions[places]]


def passages(rng: np.random.Generator, *, edited: bool) -> Passages:
    """Return passages of several segments; if edited, some are gone, and some came again."""
    numbers = np.arange(sum(SIZES))
    segments = {}
    for at, part in enumerate(np.split(numbers, np.cumsum(SIZES)[:-1])):
        gone = rng.choice(numbers[: part[0]], part[0] // 9, replace=False) if edited else part[:0]
        again = gone[::4] if at % 2 else gone[:0]  # gone from an earlier segment, and here again
        part = np.concatenate([again, part])
        lengths = rng.integers(1, 4, len(part)).astype(np.uint32)
        segments[at] = Segment(part, lengths, part, gone, [])
    return Passages(segments)


def plain(
    index: Passages, held: list[tuple[float, Weighed]], allowed: Any
) -> tuple[list[int], list[float]]:
    """Return the numbers of all passages that count and their scores, best first."""
    sums = np.zeros(len(index.numbers))
    for weight, term in held:
        sums[term.positions] += weight * term.scores_at(slice(None))
    some = np.flatnonzero(sums)
    if allowed is not None:
        some = some[np.isin(index.numbers[some], allowed)]
    some = some[np.argsort(-sums[some], kind="stable")]
    return index.numbers[some].tolist(), sums[some].tolist()


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_best_are_those_of_plain_scoring(
    monkeypatch: pytest.MonkeyPatch, seed: int, *, edited: bool
) -> None:
    """Numbers, order and every bit of a score are the same, with ties and with a filter."""
    monkeypatch.setattr(matches, "MANY", 20)
    rng = np.random.default_rng(seed)
    index = passages(rng, edited=edited)
    live = np.flatnonzero(np.ones(len(index.numbers)) if index.live is None else index.live)
    assert sorted(index.numbers[live]) == index.live_numbers.tolist()
    assert (index.positions_of(index.numbers[live]) == live).all()
    skipped = 0
    for _ in range(20):
        held = []
        for _ in range(rng.integers(1, 7)):
            having = live[rng.random(len(live)) < rng.choice([0.005, 0.05, 0.3, 0.9])]
            if len(having):
                rarity = float(max(np.log(len(live) / len(having)), 1e-6))
                weights = rng.integers(1, 4, len(having)).astype(np.uint8)
                term = Weighed(rarity, index, having.astype(np.int32), weights)
                held.append((float(rng.integers(1, 3)), term))
        allowed = None
        if rng.random() < 0.3:
            allowed = np.sort(rng.choice(index.numbers, len(index.numbers) // 3))
        expected_numbers, expected = plain(index, held, allowed)
        looked_up = Matches(index, held)
        for count in (1, 10, 100, 10_000):
            numbers, scores = looked_up.best(count, allowed)
            there = len(numbers)
            assert numbers.tolist() == expected_numbers[:there]
            assert scores.tolist() == expected[:there]
            assert there >= min(count, len(expected))
            if there < len(expected):  # the others do not tie with the last
                assert expected[there] < expected[count - 1] - MARGIN * expected[0]
            skipped += sum("scores" not in vars(term) for _, term in held)
        some = rng.choice(np.append(index.live_numbers, 10**6), 50)
        by_number = dict(zip(*plain(index, held, None), strict=True))
        assert looked_up.scores(some).tolist() == [by_number.get(n, 0.0) for n in some.tolist()]
    assert skipped


def test_without_passages() -> None:
    """Without passages, nothing is found."""
    index = Passages({})
    numbers, scores = Matches(index, []).best(5, np.array([3]))
    assert (len(numbers), len(scores), index.count) == (0, 0, 0)
    assert index.positions_of(np.array([3])).tolist() == [-1]
