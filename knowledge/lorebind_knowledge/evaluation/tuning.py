"""Choose how much vectors count beside words and terms, by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_knowledge.evaluation.evaluate import evaluate
from lorebind_knowledge.evaluation.metrics import Difference, paired_difference

if TYPE_CHECKING:
    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.evaluation.dataset import Dataset
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase

WEIGHTS = tuple(step / 10 for step in range(11))
_NEUTRAL = 0.5
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Tuning:
    """The share of the vectors that scores best on all questions, and the expected gain."""

    dense: float
    ndcg_10: float
    """The mean over all questions, each searched with the weight chosen without it."""
    declared_ndcg_10: float
    """The mean with the declared settings."""
    difference: Difference
    """The difference between the two. If it is noise, the declared settings are as good."""
    is_noise: bool


async def tune(
    kb: IndexedKnowledgeBase,
    dataset: Dataset,
    settings: RetrievalDeclaration,
    progress: Callable[[], None] = lambda: None,
) -> Tuning:
    """Choose `signals.dense` by nDCG@10, and compare it with the declared settings.

    The questions are divided into five parts; the questions of each part are searched with the
    weight that scores best on the other four.

    Raises:
        UsageError: there are fewer than four questions, or the knowledge base has none of their
            documents.
        LorebindError: see `search`.
    """
    count = len(dataset.relevant)
    if count < 4:
        raise UsageError(f"tuning needs at least 4 questions with judgements, got {count}")
    ways = {str(weight): _weighted(settings, weight) for weight in WEIGHTS}
    *scores, declared = await evaluate(kb, dataset, {**ways, "declared": settings}, progress)
    figures = {float(score.strategy): score.ndcg_of_each for score in scores}
    tuned = list(declared.ndcg_of_each)
    for part in range(min(_FOLDS, count)):
        held_out = range(part, count, _FOLDS)
        weight = _best(figures, [at for at in range(count) if at not in held_out])
        for at in held_out:
            tuned[at] = figures[weight][at]
    difference = paired_difference(tuned, declared.ndcg_of_each)
    best = _best(figures, range(count))
    return Tuning(best, fmean(tuned), declared.ndcg_10, difference, difference.is_noise)


def _best(figures: Mapping[float, Sequence[float]], questions: Collection[int]) -> float:
    """Return the weight with the highest mean for some questions; ties go to the most neutral."""

    def worth(weight: float) -> tuple[float, float]:
        mean = fmean(figures[weight][at] for at in questions)
        return round(mean, 9), -abs(weight - _NEUTRAL)

    return max(figures, key=worth)


def _weighted(settings: RetrievalDeclaration, weight: float) -> RetrievalDeclaration:
    return settings.model_copy(
        update={
            "strategy": "hybrid",
            "signals": settings.signals.with_dense(weight),
            "fusion": settings.fusion.model_copy(update={"method": "weighted"}),
        }
    )
