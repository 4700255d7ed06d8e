"""Plot the comparison of strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError
from lorebind_config.extras import import_extra

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lorebind_knowledge.evaluation.evaluate import StrategyScores

_FORMATS = (".png", ".svg", ".pdf")
_MEASURES = {"ndcg_10": "nDCG@10", "recall_10": "recall@10", "mrr": "MRR"}


def plot_scores(scores: Sequence[StrategyScores], title: str, file: Path) -> None:
    """Write a bar chart with one group per strategy; the file extension selects the format.

    Raises:
        UsageError: the extension is not .png, .svg or .pdf, or the file cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    if file.suffix.lower() not in _FORMATS:
        raise UsageError(f"{file.name}: expected a file name with {', '.join(_FORMATS)}")
    figures = import_extra("matplotlib.figure", extra="eval", purpose="plotting an evaluation")
    figure = figures.Figure(figsize=(max(6, 1.6 * len(scores)), 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(_MEASURES)
    for place, (name, label) in enumerate(_MEASURES.items()):
        left = [at + place * width for at in range(len(scores))]
        bars = axes.bar(left, [getattr(score, name) for score in scores], width, label=label)
        axes.bar_label(bars, fmt="%.3f", fontsize=7, padding=2)
    axes.set_xticks(
        [at + width for at in range(len(scores))],
        [f"{score.strategy}\n{score.p50_ms:.0f} ms" for score in scores],
    )
    axes.set_ylim(0, 1)
    axes.set_title(title)
    axes.legend(loc="upper left", ncols=len(_MEASURES), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    try:
        figure.savefig(file)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error
