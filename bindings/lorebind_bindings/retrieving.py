"""Searching every knowledge base that is bound, at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from lorebind_bindings.conversation import texts_to_search
from lorebind_knowledge.declarations.retrieval import NOTHING_FOUND
from lorebind_knowledge.errors import (
    LorebindError,
    NotFoundError,
    NotIngestedError,
    UsageError,
)
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.base import check_question

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService

Verdict: TypeAlias = Literal["hit", "escalated", "weak", "error", "fallback", "none"]
"""`hit`: passages were offered; `weak`: they were, and match the question only weakly; `fallback`:
too little was found; `escalated`: weak or too little, and an agent may search by itself; `error`:
the search failed, and `on_error` let the call go on; `none`: nothing is bound."""

_SEARCH_AGAIN = (
    "Nothing was found for this question. Search with other words if you can. If that finds "
    "nothing either, say so, and do not answer from memory."
)
_NOT_SEARCHED = (
    "The documents could not be searched just now. Say so, and do not answer from memory."
)
STANDARD = frozenset({NOTHING_FOUND, _SEARCH_AGAIN, _NOT_SEARCHED})
"""The texts that stand in for passages where nobody has written another."""


@dataclass(frozen=True, slots=True)
class BoundResult:
    """What one binding found, and what becomes of it."""

    binding: ResolvedBinding
    result: QueryResult
    error: str = ""
    """Why the search failed, where `on_error` says that it may."""
    searched_for: str = ""
    """The question, or what became of it and what was said before."""

    @property
    def shortfall(self) -> str:
        """Why it is no hit; empty for a hit."""
        return self.error or self.result.shortfall

    @property
    def hit(self) -> bool:
        return not self.shortfall

    @property
    def is_weak(self) -> bool:
        return not self.error and self.result.verdict == "weak"

    @property
    def is_given(self) -> bool:
        """Whether its passages are for the model."""
        return self.hit or (self.is_weak and self.binding.settings.on_weak == "give")

    @property
    def verdict(self) -> Verdict:
        """What becomes of it, as far as the search can tell."""
        if self.hit:
            return "hit"
        if self.error:
            return "error"
        if self.binding.settings.tool_fallback != "never":
            return "escalated"
        return "weak" if self.is_given else "fallback"

    @property
    def stands_in(self) -> str:
        """The text that a prompt is given in place of passages; empty for none."""
        settings = self.binding.settings
        if self.error and settings.on_error == "skip":
            return ""
        if settings.fallback != NOTHING_FOUND:
            return settings.fallback
        if self.error:
            return _NOT_SEARCHED
        return NOTHING_FOUND if settings.tool_fallback == "never" else _SEARCH_AGAIN


async def retrieve(
    service: KnowledgeService,
    bindings: Sequence[ResolvedBinding],
    question: str,
    history: Sequence[BaseMessage] = (),
    config: RunnableConfig | None = None,
) -> list[BoundResult]:
    """The results of all bindings, in their order.

    Args:
        service: the project's knowledge.
        bindings: what to search.
        question: what is asked.
        history: what was said before it; each binding says what becomes of that, see `condense`.
        config: whose callbacks are told of the calls of models.

    Raises:
        UsageError: a blank question, or a setting that cannot be.
        LorebindError: the first failure of a binding whose `on_error` is `fail`; an outage is
            never an empty answer.
    """

    check_question(question)

    async def one(binding: ResolvedBinding, text: str | LorebindError) -> BoundResult:
        try:
            if isinstance(text, LorebindError):
                raise text
            result = await service.query(
                binding.id, text, binding.settings, workflow=binding.workflow
            )
        except LorebindError as error:
            if binding.settings.on_error == "fail" or _is_a_mistake(error):
                raise
            nothing = QueryResult([], binding.settings.strategy, [], [binding.id], 0.0)
            return BoundResult(binding, nothing, str(error), question)
        return BoundResult(binding, result, searched_for=text)

    texts = await texts_to_search(bindings, question, history, config)
    return list(await asyncio.gather(*map(one, bindings, texts)))


def verdict_of(results: Sequence[BoundResult], *, offered: bool) -> Verdict:
    """What became of all of them together.

    Args:
        results: what each binding found.
        offered: whether a passage was put before the model.
    """
    if not results:
        return "none"
    verdicts = {result.verdict for result in results}
    if not offered:
        # What did not fit its budget leaves as little as a miss.
        verdicts = verdicts - {"hit", "weak"} or {"fallback"}
    return best_of(verdicts)


def best_of(verdicts: Iterable[str]) -> Verdict:
    """What several searches for one answer come to: what the best of them says."""
    known = set(verdicts)
    found: Verdict = next((one for one in get_args(Verdict) if one in known), "none")
    return found


def _is_a_mistake(error: LorebindError) -> bool:
    """Whether the caller has to mend it; what has yet to be ingested may come by itself."""
    not_found = isinstance(error, NotFoundError) and not isinstance(error, NotIngestedError)
    return not_found or isinstance(error, UsageError)
