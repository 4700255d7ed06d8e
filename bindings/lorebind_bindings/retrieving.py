"""Searching every knowledge base that is bound, at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lorebind_knowledge.retrieval.search import shortfall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_knowledge.records import QueryResult
    from lorebind_knowledge.service import KnowledgeService


@dataclass(frozen=True, slots=True)
class BoundResult:
    """What one binding found, and whether that is likely to answer the question."""

    binding: ResolvedBinding
    result: QueryResult
    shortfall: str
    """Why what was found is not likely to answer the question; empty for a hit."""

    @property
    def hit(self) -> bool:
        return not self.shortfall


async def retrieve(
    service: KnowledgeService, bindings: Sequence[ResolvedBinding], question: str
) -> list[BoundResult]:
    """The results of all bindings, in their order.

    Raises:
        LorebindError: the first failure of any of them; an outage is never an empty answer.
    """

    async def one(binding: ResolvedBinding) -> BoundResult:
        kb = service.knowledge_base(binding.id, binding.workflow)
        result = await service.query(
            binding.id, question, binding.settings, workflow=binding.workflow
        )
        return BoundResult(binding, result, shortfall(kb, result, binding.settings))

    return list(await asyncio.gather(*map(one, bindings)))
