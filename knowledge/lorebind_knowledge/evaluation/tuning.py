"""Choosing how much vectors and words count, by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.evaluation.bootstrap import Difference, paired_difference
from lorebind_knowledge.evaluation.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.evaluation.dataset import Dataset
    from lorebind_knowledge.knowledge_base import KnowledgeBase

WEIGHTS = tuple(step / 10 for step in range(11))
_NEUTRAL = 0.5
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Tuning:
    """The weight that does best on all questions, and what choosing one so is worth."""

    dense_weight: float
    ndcg_10: float
    """Of each question with the weight that was chosen without it."""
    declared_ndcg_10: float
    """Of the declared settings."""
    difference: Difference
    """Between the two. If it may be none, the declared settings are as good."""
    is_noise: bool


async def tune(
    kb: KnowledgeBase,
    dataset: Dataset,
    settings: RetrievalDeclaration,
    progress: Callable[[], None] = lambda: None,
) -> Tuning:
    """Pick `fusion.dense_weight` by nDCG@10, and say whether it beats the declared settings.

    The questions are parted into five; those of each part are asked with the weight that did best
    on the other four.

    Raises:
        UsageError: there are fewer than four questions, or none of their documents is there.
        LorebindError: see `search`.
    """
    count = len(dataset.relevant)
    if count < 4:
        raise UsageError(f"tuning takes at least 4 questions with judgements, not {count}")
    ways = {str(weight): _weighted(settings, weight) for weight in WEIGHTS}
    *scores, declared = await evaluate(kb, dataset, {**ways, "declared": settings}, progress)
    figures = {float(score.strategy): score.ndcg_of_each for score in scores}
    tuned = list(declared.ndcg_of_each)
    for part in range(min(_FOLDS, count)):
        asked = range(part, count, _FOLDS)
        weight = _best(figures, [at for at in range(count) if at not in asked])
        for at in asked:
            tuned[at] = figures[weight][at]
    difference = paired_difference(tuned, declared.ndcg_of_each)
    best = _best(figures, range(count))
    return Tuning(best, fmean(tuned), declared.ndcg_10, difference, difference.is_noise)


def _best(figures: dict[float, Sequence[float]], questions: Collection[int]) -> float:
    """The weight with the highest mean for some questions; of equal ones the most neutral."""

    def worth(weight: float) -> tuple[float, float]:
        mean = fmean(figures[weight][at] for at in questions)
        return round(mean, 9), -abs(weight - _NEUTRAL)

    return max(figures, key=worth)


def _weighted(settings: RetrievalDeclaration, weight: float) -> RetrievalDeclaration:
    fusion = settings.fusion.model_copy(update={"method": "weighted", "dense_weight": weight})
    return settings.model_copy(update={"strategy": "hybrid", "fusion": fusion})
