"""`stages`: further ways to search, tried in order while too little is found.

The verdict between two stages is the one that a binding is judged by: enough passages, and the best
of them likely to answer. The question is embedded once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.records import DocumentMatch

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


def suffices(
    matches: Sequence[DocumentMatch], settings: RetrievalDeclaration, hit_score: float | None
) -> bool:
    """Whether what was found is likely to answer the question.

    Where `min_score` is set, every match has passed it already. Where it is not, the best match's
    cosine is compared with the score from which the embedder's hits usually start.
    """
    if len(matches) < settings.min_results:
        return False
    if settings.min_score is not None or hit_score is None:
        return True
    return max(match.scores["dense"] for match in matches) >= hit_score
