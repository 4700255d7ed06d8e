"""Decide which passages count, and whether they are likely to answer the question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lorebind_knowledge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.records import DocumentMatch, Grade
    from lorebind_knowledge.retrieval.query import Candidate

_Scored = TypeVar("_Scored", "Candidate", "DocumentMatch")


class Judgement(NamedTuple):
    """The verdict on the passages of a search."""

    verdict: Grade
    shortfall: str = ""
    """Why the verdict is not `hit`, as a sentence."""


def judge(
    name: str,
    matches: Sequence[DocumentMatch],
    settings: RetrievalDeclaration,
    hit_score: float | None,
) -> Judgement:
    """Judge the matches of a search.

    Fewer passages than `min_results` are a `miss`. If `min_score` is set, the matches have passed
    it and are a `hit`. Otherwise they are a `hit` if the best cosine reaches `hit_score`, and
    `weak` if not.

    Args:
        name: the name of the searched knowledge bases, for messages.
        matches: the matches to judge.
        settings: the settings of the search.
        hit_score: the cosine that passages with an answer usually reach; None if unknown, then no
            match is weak.
    """
    found = len(matches)
    if found < settings.min_results:
        passing = (
            " matched" if settings.min_score is None else f" scored {settings.min_score:g} or more"
        )
        return Judgement(
            "miss",
            f"{found or 'no'} passage{'' if found == 1 else 's'} of {name}{passing}; "
            f"expected at least {settings.min_results}",
        )
    if settings.min_score is not None or hit_score is None:
        return Judgement("hit")
    best = max(match.scores["dense"] for match in matches)
    if best >= hit_score:
        return Judgement("hit")
    return Judgement(
        "weak",
        f"the match is weak: the best passage of {name} has a cosine of {best:.2f}; with this "
        f"embedder, passages that answer a question usually reach {hit_score:.2f}",
    )


def passing(
    ranked: Iterable[_Scored], settings: RetrievalDeclaration, strategy: str
) -> Iterator[_Scored]:
    """Yield the passages that reach `min_score`.

    Raises:
        UsageError: the strategy does not compute the score that `min_score_on` names.
    """
    if settings.min_score is None:
        yield from ranked
        return
    stage = settings.min_score_on or ("rerank" if strategy == "rerank" else "dense")
    for one in ranked:
        if stage not in one.scores:
            raise UsageError(
                f"the strategy {strategy!r} has no score {stage!r} for min_score; "
                f"known: {', '.join(sorted(one.scores))}"
            )
        if round(one.scores[stage], 6) >= settings.min_score or settings.min_score == 0:
            yield one
