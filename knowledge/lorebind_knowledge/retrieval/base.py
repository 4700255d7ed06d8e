"""What every search does, whatever it searches: stages, a verdict, and events."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import LorebindError, NotIngestedError, UsageError
from lorebind_knowledge.events import kind_of
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.judging import judge
from lorebind_knowledge.retrieval.stages import check_stages, stages_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch


class Search(ABC):
    """A question to some knowledge bases. What is searched, and how, is each one's own."""

    kbs: Sequence[SearchableKnowledgeBase]
    question: str
    missing: Mapping[str, str]
    """Why knowledge bases were not searched that were not, by id."""
    notices: Mapping[str, str]
    """What may be wrong with the settings, by field."""

    @property
    @abstractmethod
    def hit_score(self) -> float | None:
        """The cosine of the best passage below which a match is weak; None if it is not known."""

    @abstractmethod
    async def ranked(self, settings: RetrievalDeclaration) -> list[DocumentMatch]:
        """What is found: at most `top_k` passages, without what scores too low."""

    @property
    def name(self) -> str:
        """What is searched, for messages."""
        ids = ", ".join(repr(kb.id) for kb in self.kbs)
        return f"knowledge base{'' if len(self.kbs) == 1 else 's'} {ids}"


async def run_search(search: Search, settings: RetrievalDeclaration) -> QueryResult:
    """Search, judge what is found, and announce both to the extensions.

    Raises:
        UsageError: a blank question.
        LorebindError: what the search raises.
    """
    check_question(search.question)
    started = time.perf_counter()
    strategy = settings.strategy
    for kb in search.kbs:
        kb.emit(
            "retrieval_started",
            strategy=strategy,
            top_k=settings.top_k,
            texts=lambda: {"question": search.question},
        )
    try:
        matches, name, stage = await _staged(search, settings)
    except LorebindError as error:
        kind = kind_of(error)
        for kb in search.kbs:
            kb.emit("retrieval_failed", strategy=strategy, reason=str(error), kind=kind)
        raise
    judged = judge(search.name, matches, stages_of(settings)[stage], search.hit_score)
    seconds = time.perf_counter() - started
    searched = [kb for kb in search.kbs if kb.id not in search.missing]
    ids = [kb.id for kb in searched]
    missing, notices = list(search.missing), list(search.notices.values())
    result = QueryResult(matches, name, ids, missing, seconds, stage, *judged, notices)
    for kb in search.kbs:
        if kb.id in search.missing:
            reason, kind = search.missing[kb.id], NotIngestedError.__name__
            kb.emit("retrieval_failed", strategy=strategy, reason=reason, kind=kind)
        else:
            emit_completed(kb, search.question, result)
    return result


def check_question(question: str) -> None:
    """Refuse a question in which there is nothing to look for."""
    if not question.strip():
        raise UsageError("the question is empty; give it some words")


def emit_completed(
    kb: SearchableKnowledgeBase, question: str, result: QueryResult, *, cached: bool = False
) -> None:
    """Announce what a search has found in one of its knowledge bases."""
    matches = [match for match in result if match.metadata.get("kb_id") == kb.id]
    kb.emit(
        "retrieval_completed",
        strategy=result.strategy,
        matches=len(matches),
        seconds=result.seconds,
        stage=result.stage,
        verdict=result.verdict,
        cached=cached,
        texts=lambda: {"question": question, "texts": [match.text for match in matches]},
    )


async def _staged(
    search: Search, settings: RetrievalDeclaration
) -> tuple[list[DocumentMatch], str, int]:
    """What the first stage finds that finds enough, its strategy and its number, see `stages`.

    Where none does, it is the stage that found most, the first of equals.
    """
    if not settings.stages:
        return await search.ranked(settings), settings.strategy, 0
    stages = stages_of(settings)
    check_stages(search.name, stages)
    # Judged by as many passages whatever top_k is, so that fewer stay the first of more.
    limit = max(settings.top_k, settings.min_results)
    best: tuple[list[DocumentMatch], str, int] = ([], settings.strategy, 0)
    for number, one in enumerate(stages):
        matches = await search.ranked(one.model_copy(update={"top_k": limit}))
        enough = judge(search.name, matches, one, search.hit_score).verdict == "hit"
        if enough or number == 0 or len(matches) > len(best[0]):
            best = (matches, one.strategy, number)
        if enough:
            break
    matches, name, number = best
    return matches[: settings.top_k], name, number
