"""Figures of an evaluation: metrics of a ranking, and bootstrap intervals of their means."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np


def ndcg(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the normalized discounted cumulative gain at k (Järvelin and Kekäläinen, 2002)."""
    gain = sum(1 / math.log2(at + 2) for at, name in enumerate(ranked[:k]) if name in relevant)
    best = sum(1 / math.log2(at + 2) for at in range(min(k, len(relevant))))
    return gain / best if best else 0.0


def recall(ranked: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant documents that is among the first k."""
    return len(set(ranked[:k]) & set(relevant)) / len(relevant) if relevant else 0.0


def reciprocal_rank(ranked: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 / the rank of the first relevant document; 0 if there is none."""
    return next((1 / (at + 1) for at, name in enumerate(ranked) if name in relevant), 0.0)


_SAMPLES = 10_000
_SEED = 20_231


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference with its 95 % confidence interval."""

    mean: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains 0, so that there may be no difference."""
        return self.low <= 0 <= self.high

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired_difference(figures: Sequence[float], others: Sequence[float]) -> Difference:
    """Return how much higher the first scores are than the second, question by question.

    The interval comes from the percentile bootstrap (Efron and Tibshirani, 1993): the questions are
    resampled with replacement, from a fixed seed.

    Args:
        figures, others: scores of the same questions in the same order; at least one each.
    """
    differences = np.asarray(figures) - np.asarray(others)
    count = len(differences)
    means = np.empty(_SAMPLES)
    draw = np.random.default_rng(_SEED)
    for start in range(0, _SAMPLES, 500):
        drawn = draw.integers(0, count, (500, count))
        means[start : start + 500] = differences[drawn].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Difference(float(differences.mean()), float(low), float(high))
