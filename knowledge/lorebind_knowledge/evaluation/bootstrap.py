"""How sure a difference between two rankings is, by the questions they were measured with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

_SAMPLES = 10_000
_SEED = 20_231


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference, and the interval that it lies in with a probability of 95 %."""

    mean: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Whether there may be no difference at all."""
        return self.low <= 0 <= self.high

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def paired_difference(figures: Sequence[float], others: Sequence[float]) -> Difference:
    """How much higher the first figures are than the second, question by question.

    The interval is that of the percentile bootstrap (Efron and Tibshirani, 1993): the questions are
    drawn again and again, with repeats, and the same ones each time.

    Args:
        figures, others: of the same questions in the same order; at least one.
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
