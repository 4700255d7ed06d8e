"""Measures of a ranking against judgements, each from 0 to 1, higher is better.

A document is either relevant or not; all grades above 0 count the same, as in most publications.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


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
