"""Judging a search: the relevance that decides which passages are returned, and the verdict.

`stages` are alternative settings, tried in order until a search is a hit. The question is embedded
once for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.records import Grade

_Figure = TypeVar("_Figure")


class _HasScores(Protocol):
    @property
    def scores(self) -> Mapping[str, float]: ...


_Scored = TypeVar("_Scored", bound=_HasScores)


_FUSED = ("dense", "lexical", "terms", "fused")


_FIGURES = {
    "similarity": ("dense",),
    "lexical": ("dense", "lexical"),
    "hybrid": _FUSED,
    "mmr": _FUSED,
    "rerank": (*_FUSED, "rerank"),
}
"""The raw scores of each strategy that `min_score` may be compared with."""


class Judgement(NamedTuple):
    """The verdict on the passages of a search."""

    verdict: Grade
    shortfall: str = ""
    """Why the verdict is not `hit`, as a sentence."""


def judge(
    name: str,
    count: int,
    best: float,
    settings: RetrievalDeclaration,
    weak_below: float | None,
) -> Judgement:
    """Judge the passages of a search.

    Fewer passages than `min_results` are a `miss`. Otherwise they are a `hit` if the best relevance
    reaches `weak_below`, and `weak` if not.

    Args:
        name: the name of the searched knowledge bases, for messages.
        count: the number of passages that reach `min_score`.
        best: the highest relevance of a candidate.
        settings: the settings of the search.
        weak_below: the relevance that passages with an answer usually reach; None if unknown, then
            no match is weak.
    """
    if count < settings.min_results:
        passing = (
            " matched"
            if settings.min_score is None
            else f" reached the relevance {settings.min_score:g} (min_score)"
        )
        return Judgement(
            "miss",
            f"{count or 'no'} passage{'' if count == 1 else 's'} of {name}{passing}; "
            f"expected at least {settings.min_results}",
        )
    if weak_below is None or best >= weak_below:
        return Judgement("hit")
    return Judgement(
        "weak",
        f"the match is weak: the best passage of {name} has the relevance {best:.3f}; passages "
        f"that answer a question usually reach {weak_below:g} (weak_below)",
    )


def absolute(scores: Mapping[str, _Figure]) -> _Figure:
    """Return the raw score that is comparable between questions: the cosine, or without vectors
    the coverage of the question's words."""
    return scores["dense"] if "dense" in scores else scores["coverage"]


def deciding(scores: Mapping[str, _Figure], settings: RetrievalDeclaration) -> _Figure:
    """Return the raw score that decides: that of `min_score_on`, or else the reranker's or the
    absolute one.

    Raises:
        UsageError: the strategy does not compute the score that `min_score_on` names.
    """
    stage = settings.relevance_is
    if stage == "dense" and settings.min_score_on is None:
        return absolute(scores)
    if stage == "terms" and stage not in scores and stage in _FIGURES[settings.strategy]:
        raise UsageError(
            "min_score_on names the score 'terms', but the search has no terms: turn on a sparse "
            "embedder, ingest again and let signals count terms, or name another score; "
            f"known: {', '.join(sorted(scores))}",
            at=("min_score_on",),
        )
    if stage not in scores:
        raise UsageError(
            f"the strategy {settings.strategy!r} has no score {stage!r} for min_score_on; "
            f"known: {', '.join(sorted(scores))}"
        )
    return scores[stage]


def relevance(scores: Mapping[str, float], settings: RetrievalDeclaration) -> float:
    """Return the relevance of a passage with these raw scores, from 0 to 1; see `deciding`."""
    from lorebind_knowledge.cosines import score_of  # with NumPy, which only searches need

    return score_of(deciding(scores, settings))


def passing(ranked: Iterable[_Scored], settings: RetrievalDeclaration) -> list[_Scored]:
    """Return the passages whose relevance reaches `min_score`."""
    least = settings.min_score
    return [
        match for match in ranked if least is None or relevance(match.scores, settings) >= least
    ]


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
