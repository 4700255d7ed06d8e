"""Searching every knowledge base that is bound, at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from lorebind_knowledge.errors import (
    LorebindError,
    NotFoundError,
    NotIngestedError,
    UsageError,
)
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.search import shortfall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.service import KnowledgeService

Verdict: TypeAlias = Literal["hit", "escalated", "error", "fallback", "none"]
"""`hit`: passages were offered; `fallback`: too little was found; `escalated`: too little was
found, and an agent is to search by itself; `error`: the search failed, and `on_error` let the call
go on; `none`: nothing is bound."""


@dataclass(frozen=True, slots=True)
class BoundResult:
    """What one binding found, and whether that is likely to answer the question."""

    binding: ResolvedBinding
    result: QueryResult
    shortfall: str
    """Why what was found is not likely to answer the question; empty for a hit."""
    error: str = ""
    """Why the search failed, where `on_error` says that it may."""

    @property
    def hit(self) -> bool:
        return not self.shortfall

    @property
    def verdict(self) -> Verdict:
        """What becomes of it, as far as the search can tell."""
        if self.hit:
            return "hit"
        if self.error:
            return "error"
        return "fallback" if self.binding.settings.tool_fallback == "never" else "escalated"

    @property
    def stands_in(self) -> str:
        """The text that a prompt is given when this is no hit; empty for none."""
        settings = self.binding.settings
        skipped = self.error and settings.on_error == "skip"
        return "" if skipped else settings.fallback or ""


async def retrieve(
    service: KnowledgeService, bindings: Sequence[ResolvedBinding], question: str
) -> list[BoundResult]:
    """The results of all bindings, in their order.

    Raises:
        UsageError: a blank question, or a setting that cannot be.
        LorebindError: the first failure of a binding whose `on_error` is `fail`; an outage is
            never an empty answer.
    """

    async def one(binding: ResolvedBinding) -> BoundResult:
        try:
            kb = service.knowledge_base(binding.id, binding.workflow)
            result = await service.query(
                binding.id, question, binding.settings, workflow=binding.workflow
            )
        except LorebindError as error:
            if binding.settings.on_error == "fail" or _is_a_mistake(error):
                raise
            nothing = QueryResult([], binding.settings.strategy, [], [binding.id], 0.0)
            return BoundResult(binding, nothing, str(error), error=str(error))
        return BoundResult(binding, result, shortfall(kb, result, binding.settings))

    return list(await asyncio.gather(*map(one, bindings)))


def verdict_of(results: Sequence[BoundResult], *, offered: bool) -> Verdict:
    """What became of all of them together.

    Args:
        results: what each binding found.
        offered: whether a passage was put before the model.
    """
    if not results or offered:
        return "hit" if results else "none"
    verdicts = [result.verdict for result in results]
    # A hit that is not offered did not fit its budget, which leaves as little as a miss.
    return next((one for one in verdicts if one in ("escalated", "error")), "fallback")


def best_of(verdicts: Iterable[str]) -> Verdict:
    """What several searches for one answer come to: what the best of them says."""
    known = set(verdicts)
    found: Verdict = next((one for one in get_args(Verdict) if one in known), "none")
    return found


def _is_a_mistake(error: LorebindError) -> bool:
    """Whether the caller has to mend it; what has yet to be ingested may come by itself."""
    not_found = isinstance(error, NotFoundError) and not isinstance(error, NotIngestedError)
    return not_found or isinstance(error, UsageError)
