"""Choosing how much vectors and words count, on one half of the questions, for the other half."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.evaluation.dataset import Dataset
from lorebind_knowledge.evaluation.evaluate import StrategyScores, evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase

WEIGHTS = tuple(step / 10 for step in range(11))


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was chosen on the first half, and how it does on the second."""

    dense_weight: float
    tuned: StrategyScores
    """The chosen weight, on the questions it was not chosen by."""
    declared: StrategyScores
    """The declared settings, on the same questions."""


async def tune(
    kb: KnowledgeBase,
    dataset: Dataset,
    settings: RetrievalDeclaration,
    progress: Callable[[], None] = lambda: None,
) -> Tuning:
    """Pick `fusion.dense_weight` by nDCG@10 on every second question, and report the others.

    Raises:
        UsageError: there are fewer than four questions, or none of their documents is there.
        LorebindError: see `search`.
    """
    if len(dataset.relevant) < 4:
        raise UsageError(f"{len(dataset.relevant)} questions cannot be halved to tune; give more")
    first, second = _half(dataset, 0), _half(dataset, 1)
    ways = {str(weight): _weighted(settings, weight) for weight in WEIGHTS}
    scores = await evaluate(kb, first, ways, progress)
    best = max(scores, key=lambda score: (score.ndcg_10, -abs(float(score.strategy) - 0.5)))
    weight = float(best.strategy)
    tuned, declared = await evaluate(
        kb, second, {"tuned": _weighted(settings, weight), "declared": settings}, progress
    )
    return Tuning(weight, tuned, declared)


def _half(dataset: Dataset, which: int) -> Dataset:
    chosen = sorted(dataset.relevant)[which::2]
    return Dataset(dataset.queries, {query: dataset.relevant[query] for query in chosen})


def _weighted(settings: RetrievalDeclaration, weight: float) -> RetrievalDeclaration:
    fusion = settings.fusion.model_copy(update={"method": "weighted", "dense_weight": weight})
    return settings.model_copy(update={"strategy": "hybrid", "fusion": fusion})
