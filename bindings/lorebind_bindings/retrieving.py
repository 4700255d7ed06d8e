"""Search all bound knowledge bases concurrently."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from lorebind_bindings.conversation import texts_to_search
from lorebind_config.declarations.retrieval import NOTHING_FOUND
from lorebind_config.errors import (
    ConfigurationError,
    LorebindError,
    NotFoundError,
    NotIngestedError,
    UsageError,
)
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.base import check_question

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService

log = logging.getLogger("lorebind.retrieval")

Verdict: TypeAlias = Literal["hit", "escalated", "weak", "error", "fallback", "none"]
"""The result of a search.

- `hit`: passages were offered.
- `escalated`: the match was weak or too little was found, and the model may search by itself.
- `weak`: passages were offered that match the question only weakly.
- `error`: the search failed, and `on_error` let the call continue.
- `fallback`: too little was found.
- `none`: nothing is bound.
"""

_SEARCH_AGAIN = (
    "Nothing was found for this question. Search with other words if you can. If that finds "
    "nothing either, say so, and do not answer from memory."
)
_NOT_SEARCHED = (
    "The documents could not be searched just now. Say so, and do not answer from memory."
)
STANDARD = frozenset({NOTHING_FOUND, _SEARCH_AGAIN, _NOT_SEARCHED})
"""The default texts that stand in for passages."""


@dataclass(frozen=True, slots=True)
class BoundResult:
    """The search result of a binding."""

    binding: ResolvedBinding
    result: QueryResult
    error: str = ""
    """Why the search failed, if the binding's `on_error` is not `fail`."""
    searched_for: str = ""
    """The question, or the text that was made from it and the earlier messages."""

    @property
    def shortfall(self) -> str:
        """The reason why the result is not a hit; empty for a hit."""
        return self.error or self.result.shortfall

    @property
    def hit(self) -> bool:
        return not self.shortfall

    @property
    def is_weak(self) -> bool:
        return not self.error and self.result.verdict == "weak"

    @property
    def is_given(self) -> bool:
        """Whether its passages are given to the model."""
        return self.hit or (self.is_weak and self.binding.settings.on_weak == "give")

    @property
    def verdict(self) -> Verdict:
        """The verdict of this search, before the token budget is applied."""
        if self.hit:
            return "hit"
        if self.error:
            return "error"
        if self.binding.is_searchable:
            return "escalated"
        return "weak" if self.is_given else "fallback"

    @property
    def stands_in(self) -> str:
        """The text that the prompt contains in place of passages; empty for no text."""
        settings = self.binding.settings
        if self.error and settings.on_error == "skip":
            return ""
        if settings.fallback != NOTHING_FOUND:
            return settings.fallback
        if self.error:
            return _NOT_SEARCHED
        return _SEARCH_AGAIN if self.binding.is_searchable else NOTHING_FOUND


async def retrieve(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    question: str,
    history: Sequence[BaseMessage] = (),
    config: RunnableConfig | None = None,
) -> list[BoundResult]:
    """Search all bindings concurrently and return their results in the same order.

    The notices of the results are logged as warnings, each once per process: agents, workflows and
    retrievers show them to nobody.

    Args:
        service: the project's knowledge.
        bindings: the knowledge bases to search.
        question: the user's question.
        history: the messages before it. The `condense` of each binding says how they are used.
        config: its callbacks are notified of model calls.

    Raises:
        UsageError: the question is blank, or a setting is invalid.
        LorebindError: the first failure of a binding whose `on_error` is `fail`. An outage is never
            reported as an empty result.
    """

    check_question(question)

    async def search(binding: ResolvedBinding, text: str | LorebindError) -> BoundResult:
        try:
            if isinstance(text, LorebindError):
                raise text
            handle = service.open(binding.id, binding.workflow)
            result = await handle.query(text, binding.settings)
        except LorebindError as error:
            if binding.settings.on_error == "fail" or _is_a_mistake(error):
                raise
            nothing = QueryResult([], binding.settings.strategy, [], [binding.id], 0.0)
            return BoundResult(binding, nothing, str(error), question)
        for notice in result.notices:
            _warn(notice)
        return BoundResult(binding, result, searched_for=text)

    texts = await texts_to_search(bindings, question, history, config, service.events)
    return list(await asyncio.gather(*map(search, bindings, texts)))


@lru_cache(maxsize=1024)
def _warn(notice: str) -> None:
    """Log a notice, unless it is one of the latest that were logged."""
    log.warning("%s", notice)


def verdict_of(results: Sequence[BoundResult], offered: Collection[str]) -> Verdict:
    """Return the verdict of several search results together.

    Args:
        results: the results of the bindings.
        offered: the ids of the bindings with passages in the prompt.
    """
    if not results:
        return "none"
    # Passages that did not fit the budget are treated like a miss.
    absent = {result.verdict for result in results if result.binding.id not in offered}
    present = {result.verdict for result in results if result.binding.id in offered}
    return best_of(present | (absent - {"hit", "weak"}) or {"fallback"})


def best_of(verdicts: Iterable[str]) -> Verdict:
    """Return the best of several verdicts."""
    present = set(verdicts)
    best: Verdict = next((arg for arg in get_args(Verdict) if arg in present), "none")
    return best


def _is_a_mistake(error: LorebindError) -> bool:
    """Check whether the caller has to fix it; a missing ingest may be completed by itself."""
    not_found = isinstance(error, NotFoundError) and not isinstance(error, NotIngestedError)
    return not_found or isinstance(error, UsageError | ConfigurationError)
