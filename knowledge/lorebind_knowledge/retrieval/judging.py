"""What of the found passages counts, and whether they are likely to answer the question."""

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
    """What passages are worth as an answer."""

    verdict: Grade
    shortfall: str = ""
    """Why it is no `hit`, in a sentence."""


def judge(
    name: str,
    matches: Sequence[DocumentMatch],
    settings: RetrievalDeclaration,
    hit_score: float | None,
) -> Judgement:
    """Judge what a search found.

    Fewer passages than `min_results` are a `miss`. Where `min_score` is set, all others have passed
    it and are a `hit`. Where it is not, they are a `hit` if the best cosine reaches the level from
    which the embedder's answers usually start, and `weak` below it.

    Args:
        name: what was searched.
        matches: what was found.
        settings: how it was searched.
        hit_score: that level; None if it is not known, and nothing is weak.
    """
    found = len(matches)
    if found < settings.min_results:
        passing = "" if settings.min_score is None else f" scored {settings.min_score:g} or more"
        return Judgement(
            "miss",
            f"{found or 'no'} passage{'' if found == 1 else 's'} of {name}{passing}; "
            f"at least {settings.min_results} would count as an answer",
        )
    if settings.min_score is not None or hit_score is None:
        return Judgement("hit")
    best = max(match.scores["dense"] for match in matches)
    if best >= hit_score:
        return Judgement("hit")
    return Judgement(
        "weak",
        f"the match is weak: the best passage of {name} has the cosine {best:.2f}, and with this "
        f"embedder passages that answer usually have {hit_score:.2f} or more",
    )


def passing(
    ranked: Iterable[_Scored], settings: RetrievalDeclaration, strategy: str
) -> Iterator[_Scored]:
    """Those whose figure reaches `min_score`.

    Raises:
        UsageError: the strategy has no such figure.
    """
    if settings.min_score is None:
        yield from ranked
        return
    stage = settings.min_score_on or ("rerank" if strategy == "rerank" else "dense")
    for one in ranked:
        if stage not in one.scores:
            raise UsageError(
                f"the strategy {strategy!r} has no figure {stage!r} for min_score; "
                f"known: {', '.join(sorted(one.scores))}"
            )
        if round(one.scores[stage], 6) >= settings.min_score or settings.min_score == 0:
            yield one
