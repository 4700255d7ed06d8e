"""Find the gaps where the subject changes, from a score for each gap between sentences.

The four rules are those of LangChain's `SemanticChunker` (langchain-experimental), after Greg
Kamradt's "5 Levels of Text Splitting". A gap is chosen if its score reaches the rule's cutoff. Gaps
with the lowest score are never chosen, so a text without changes is not split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

Rule: TypeAlias = Literal["percentile", "standard_deviation", "interquartile", "gradient"]


def breakpoints(scores: Sequence[float], rule: Rule, threshold: float) -> set[int]:
    """Return the indices of the scores at which to break.

    Args:
        scores: one for each gap; higher is a greater change.
        rule: `percentile`: the score is at or above the percentile `threshold`;
            `standard_deviation`: it is at least `threshold` standard deviations above the mean;
            `interquartile`: it is at least `threshold` interquartile ranges above the upper
            quartile, Tukey's fence (with fewer than four scores: at or above the upper quartile);
            `gradient`: its rise from the previous score is at or above the percentile `threshold`
            of all rises. A fall counts as a rise of 0.
        threshold: in the unit of the rule.
    """
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    if rule == "gradient":
        values = np.maximum(np.diff(values, prepend=values[:1]), 0.0)
    if not len(values):
        return set()
    chosen = (values >= _cutoff(values, rule, threshold)) & (values > values.min())
    return {int(index) for index in np.flatnonzero(chosen)}


def _cutoff(values: npt.NDArray[np.float64], rule: Rule, threshold: float) -> float:
    import numpy as np

    if rule == "standard_deviation":
        return float(values.mean() + threshold * values.std())
    if rule == "interquartile" and len(values) < 4:
        return float(np.percentile(values, 75))
    if rule == "interquartile":
        lower, upper = np.percentile(values, [25, 75])
        return float(upper + threshold * (upper - lower))
    return float(np.percentile(values, threshold))
