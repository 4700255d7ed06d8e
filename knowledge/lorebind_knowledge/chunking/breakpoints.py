"""From the scores of the gaps between sentences to the gaps at which the subject changes.

The four rules are those of LangChain's `SemanticChunker` (langchain-experimental), after Greg
Kamradt's "5 Levels of Text Splitting". A gap is chosen whose score reaches the rule's cutoff; one
with the lowest score of all is never chosen, so that an even text is left whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

Rule: TypeAlias = Literal["percentile", "standard_deviation", "interquartile", "gradient"]


def breakpoints(scores: Sequence[float], rule: Rule, threshold: float) -> set[int]:
    """The indices of the scores at which to break.

    Args:
        scores: one for each gap, higher is a greater change.
        rule: `percentile`: the score is among the highest, `threshold` in percent being below;
            `standard_deviation`: it is so many deviations above the mean;
            `interquartile`: it is so many interquartile ranges above the upper quartile, Tukey's
            fence (of fewer than four scores: among the highest quarter);
            `gradient`: its rise from the score before is among the steepest, `threshold` in
            percent being less steep. Falls are no rises.
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
