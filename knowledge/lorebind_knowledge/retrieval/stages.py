"""`stages`: further ways to search, tried in order until one of them is a hit.

The question is embedded once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.declarations import RetrievalDeclaration

_FUSED = ("dense", "lexical", "fused")
_FIGURES = {
    "similarity": ("dense",),
    "lexical": ("dense", "lexical"),
    "hybrid": _FUSED,
    "mmr": _FUSED,
    "rerank": (*_FUSED, "rerank"),
}
"""What each strategy tells of a passage that `min_score` may be compared with."""


def stages_of(settings: RetrievalDeclaration) -> list[RetrievalDeclaration]:
    """The settings themselves, then those of each stage over them."""
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
    """Refuse what would fail in a later stage, before the first: such a stage is seldom reached.

    Raises:
        UsageError: naming the stage, counted from 1, and what it lacks.
    """
    for number, one in enumerate(stages[1:], start=1):
        where = f"{name}: stage {number} is searched with the strategy {one.strategy!r}"
        if one.strategy == "rerank" and one.rerank is None:
            raise UsageError(f"{where}, which needs a reranker; write 'rerank' beside 'stages'")
        wanted = one.min_score_on
        if one.min_score is not None and wanted and wanted not in _FIGURES[one.strategy]:
            known = ", ".join(_FIGURES[one.strategy])
            raise UsageError(f"{where}, which has no figure {wanted!r}; known: {known}")
