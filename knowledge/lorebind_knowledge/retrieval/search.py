"""Searching a knowledge base, whatever the strategy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lorebind_knowledge.bridge import call
from lorebind_knowledge.errors import (
    IndexMismatchError,
    LorebindError,
    NotIngestedError,
    StoreError,
    UsageError,
)
from lorebind_knowledge.events import Event
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.similarity import similarity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.scope import IndexKey

    Strategy = Callable[
        [KnowledgeBase, IndexKey, str, RetrievalDeclaration], Awaitable[list[DocumentMatch]]
    ]

STRATEGIES: dict[str, Strategy] = {"similarity": similarity}


async def search(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration | None = None
) -> QueryResult:
    """The passages of a knowledge base that are nearest to a question, best first.

    Args:
        kb: the knowledge base.
        question: any text that is not blank.
        settings: how to search; None means the knowledge base's own `retrieval`.

    Raises:
        UsageError: a blank question, or a filter that cannot be.
        NotIngestedError: nothing has been ingested yet.
        IndexMismatchError: the index was built by another embedder.
        EmbedderError, StoreError: an outage; it is never an empty answer.
    """
    if not question.strip():
        raise UsageError("the question is empty; give it some words")
    settings = settings or kb.retrieval
    started = time.perf_counter()
    name = settings.strategy
    kb.events.emit(
        "retrieval_started", Event(kb.id, data={"strategy": name, "top_k": settings.top_k})
    )
    try:
        matches = await _search(kb, question, settings)
    except LorebindError as error:
        kb.events.emit(
            "retrieval_failed", Event(kb.id, data={"strategy": name, "reason": str(error)})
        )
        raise
    seconds = time.perf_counter() - started
    data = {"strategy": name, "matches": len(matches), "seconds": seconds}
    kb.events.emit("retrieval_completed", Event(kb.id, data=data))
    return QueryResult(matches, name, [kb.id], [], seconds)


async def _search(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration
) -> list[DocumentMatch]:
    strategy = STRATEGIES[settings.strategy]
    index = await _index_in_use(kb)
    try:
        # Not opened first: an index that the store has lost is an error, not an empty answer.
        return await strategy(kb, index.key, question, settings)
    except StoreError:
        # A reindex may have put a successor in its place between the two calls.
        successor = await _index_in_use(kb)
        if successor.key == index.key:
            raise
        return await strategy(kb, successor.key, question, settings)


async def _index_in_use(kb: KnowledgeBase) -> IndexEntry:
    index = await call(kb.catalog.ledger.index, kb.namespace, "active")
    if index is None:
        raise NotIngestedError(
            f"nothing has been ingested into knowledge base {kb.id!r} yet; run: {kb.ingest_command}"
        )
    if index.manifest.embedder_key != kb.embedder.fingerprint.key:
        raise IndexMismatchError(
            f"the index of knowledge base {kb.id!r} was built with the embedder "
            f"{index.manifest.embedder}, and the project now declares "
            f"{kb.embedder.fingerprint}; build it anew with: {kb.ingest_command}"
        )
    return index


def shortfall(kb: KnowledgeBase, result: QueryResult, settings: RetrievalDeclaration) -> str:
    """Why what was found is not likely to answer the question; empty when it is.

    Where `min_score` is set, every match has passed it already. Where it is not, the best match's
    cosine is compared with the score from which the embedder's hits usually start.
    """
    found = len(result.matches)
    if found < settings.min_results:
        passing = "" if settings.min_score is None else f" scored {settings.min_score:g} or more"
        return (
            f"{found or 'no'} passage{'' if found == 1 else 's'} of {kb.id!r}{passing}; "
            f"at least {settings.min_results} would count as an answer"
        )
    if settings.min_score is not None or kb.embedder.hit_score is None:
        return ""
    best = max(match.scores["dense"] for match in result.matches)
    if best >= kb.embedder.hit_score:
        return ""
    return (
        f"no passage of {kb.id!r} is likely to answer this: the best scored {best:.2f}, and with "
        f"this embedder answers usually start at {kb.embedder.hit_score:.2f}"
    )
