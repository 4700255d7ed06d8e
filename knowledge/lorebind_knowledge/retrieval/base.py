"""The steps that all searches share: stages, a verdict, and events."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_config.errors import LorebindError, NotIngestedError, UsageError
from lorebind_knowledge.events import kind_of
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.judging import check_stages, judge, stages_of

if TYPE_CHECKING:
    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import SearchableKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.judging import Judgement


_MOST = 50
"""The largest `top_k`: stages are compared by this number of passages."""


class Search(ABC):
    """A question to some knowledge bases. Subclasses define what is searched and how."""

    kbs: Sequence[SearchableKnowledgeBase]
    question: str
    missing: Mapping[str, NotIngestedError]
    """The reasons why knowledge bases were not searched, by their ids."""
    notices: Mapping[str, str]
    """Notices for the caller about the settings and the indexes, each under its own name."""

    @abstractmethod
    async def ranked(self, settings: RetrievalDeclaration) -> tuple[list[DocumentMatch], float]:
        """Return at most `top_k` passages that reach `min_score`, and the highest relevance of all
        candidates, which does not depend on `top_k`."""

    @abstractmethod
    def check(self, settings: RetrievalDeclaration) -> None:
        """Raise `UsageError` for settings that the knowledge bases cannot be searched with."""

    def weak_below(self, settings: RetrievalDeclaration) -> float | None:
        """Return the relevance below which a match is weak; None: no match is weak.

        The level of several knowledge bases is the lowest of theirs.
        """
        levels = [kb.weak_levels.of(settings) for kb in self.kbs]
        declared = [level for level in levels if level is not None]
        return min(declared) if len(declared) == len(levels) else None

    @cached_property
    def name(self) -> str:
        """The name of the searched knowledge bases, for messages."""
        ids = ", ".join(repr(kb.id) for kb in self.kbs)
        return f"knowledge base{'' if len(self.kbs) == 1 else 's'} {ids}"


async def run_search(search: Search, settings: RetrievalDeclaration) -> QueryResult:
    """Search, judge the matches, and notify the extensions.

    Raises:
        UsageError: the question is blank.
        LorebindError: the search failed.
    """
    check_question(search.question)
    started = time.perf_counter()
    emit_started(search.kbs, search.question, settings)
    with _announced_failure(search, settings.strategy):
        stages = stages_of(settings)
        check_stages(search.name, stages)
        for stage in stages:
            search.check(stage)
        # Judged by the same passages for every top_k: a smaller one returns a prefix of a larger.
        limit = _MOST if settings.stages else max(settings.top_k, settings.min_results)
        best: _StageResult | None = None
        # The first stage that is a hit counts, or else the one with the most matches; see `stages`.
        for number, stage in enumerate(stages):
            if stage.top_k != limit:
                stage = stage.model_copy(update={"top_k": limit})
            matches, relevance = await search.ranked(stage)
            level = search.weak_below(stage)
            judgement = judge(search.name, len(matches), relevance, stage, level)
            if best is None or judgement.verdict == "hit" or len(matches) > len(best.matches):
                best = _StageResult(number, stage.strategy, matches, judgement)
            if judgement.verdict == "hit":
                break
        assert best is not None  # the settings themselves are a stage
    result = QueryResult(
        best.matches[: settings.top_k],
        best.strategy,
        [kb.id for kb in search.kbs if kb.id not in search.missing],
        list(search.missing),
        time.perf_counter() - started,
        best.number,
        *best.judgement,
        list(search.notices.values()),
    )
    for kb in search.kbs:
        if kb.id in search.missing:
            _emit_failed(kb, settings.strategy, search.missing[kb.id])
        else:
            emit_completed(kb, search.question, result)
    return result


class _StageResult(NamedTuple):
    number: int
    """0 for the settings themselves."""
    strategy: str
    matches: list[DocumentMatch]
    judgement: Judgement


@contextmanager
def _announced_failure(search: Search, strategy: str) -> Iterator[None]:
    """Notify the extensions if the block raises."""
    try:
        yield
    except LorebindError as error:
        for kb in search.kbs:
            _emit_failed(kb, strategy, error)
        raise


def check_question(question: str) -> None:
    """Raise `UsageError` for a blank question."""
    if not question.strip():
        raise UsageError("the question is empty; write a question", at=("query",))


def _emit_failed(kb: SearchableKnowledgeBase, strategy: str, error: LorebindError) -> None:
    reason = {"reason": str(error)}
    kb.emit("retrieval_failed", strategy=strategy, kind=kind_of(error), texts=lambda: reason)


def emit_started(
    kbs: Sequence[SearchableKnowledgeBase],
    question: str,
    settings: RetrievalDeclaration,
    **more: Any,
) -> None:
    """Notify the extensions of a search."""
    for kb in kbs:
        kb.emit(
            "retrieval_started",
            strategy=settings.strategy,
            top_k=settings.top_k,
            **more,
            texts=lambda: {"question": question},
        )


def emit_completed(
    kb: SearchableKnowledgeBase, question: str, result: QueryResult, *, cached: bool = False
) -> None:
    """Notify the extensions of the matches from one of the searched knowledge bases."""
    matches = [match for match in result.matches if match.metadata.get("kb_id") == kb.id]
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
