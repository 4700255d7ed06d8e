"""`stages`: alternative settings, tried in order until a search is a hit.

The question is embedded once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_config.declarations import RetrievalDeclaration

_FUSED = ("dense", "lexical", "fused")
_FIGURES = {
    "similarity": ("dense",),
    "lexical": ("dense", "lexical"),
    "hybrid": _FUSED,
    "mmr": _FUSED,
    "rerank": (*_FUSED, "rerank"),
}
"""The raw scores of each strategy that `min_score` may be compared with."""


def stages_of(settings: RetrievalDeclaration) -> list[RetrievalDeclaration]:
    """Return the settings themselves, then the settings with each stage's overrides."""
    return [
        settings,
        *(
            settings.model_copy(
                update={name: getattr(stage, name) for name in stage.model_fields_set}
            )
            for stage in settings.stages
        ),
    ]


def check_stages(name: str, stages: Sequence[RetrievalDeclaration]) -> None:
    """Check all stages before the first search, since later stages are rarely reached.

    Raises:
        UsageError: names the stage, counted from 1, and what it lacks.
    """
    for number, stage in enumerate(stages[1:], start=1):
        where = f"{name}: stage {number} uses the strategy {stage.strategy!r}"
        if stage.strategy == "rerank" and stage.rerank is None:
            raise UsageError(f"{where}, which needs a reranker; write 'rerank' next to 'stages'")
        decides = stage.min_score_on
        if decides and decides not in _FIGURES[stage.strategy]:
            scores = ", ".join(_FIGURES[stage.strategy])
            raise UsageError(f"{where}, which has no score {decides!r}; known: {scores}")
