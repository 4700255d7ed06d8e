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
from lorebind_knowledge.retrieval.base import Search
from lorebind_knowledge.retrieval.dedupe import without_repeats
from lorebind_knowledge.retrieval.hybrid import hybrid
from lorebind_knowledge.retrieval.lexical import lexical
from lorebind_knowledge.retrieval.mmr import mmr
from lorebind_knowledge.retrieval.neighbours import with_neighbours
from lorebind_knowledge.retrieval.rerank import rerank
from lorebind_knowledge.retrieval.similarity import similarity
from lorebind_knowledge.retrieval.stages import check_stages, stages_of, suffices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch
    from lorebind_knowledge.retrieval.base import Searching, Strategy

STRATEGIES: dict[str, Strategy] = {
    "similarity": similarity,
    "lexical": lexical,
    "hybrid": hybrid,
    "mmr": mmr,
    "rerank": rerank,
}

_MOST = 1000
"""Passages that are looked through to fill `top_k` where many repeat each other."""


async def search(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration | None = None
) -> QueryResult:
    """The passages of a knowledge base that answer a question best, the best first.

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
    check_question(question)
    settings = settings or kb.retrieval
    started = time.perf_counter()
    asked = settings.strategy
    kb.events.emit(
        "retrieval_started", Event(kb.id, data={"strategy": asked, "top_k": settings.top_k})
    )
    try:
        matches, name, stage = await _search(kb, question, settings)
    except LorebindError as error:
        kb.events.emit(
            "retrieval_failed", Event(kb.id, data={"strategy": asked, "reason": str(error)})
        )
        raise
    seconds = time.perf_counter() - started
    data = {"strategy": name, "matches": len(matches), "seconds": seconds, "stage": stage}
    kb.events.emit("retrieval_completed", Event(kb.id, data=data))
    return QueryResult(matches, name, [kb.id], [], seconds, stage)


def check_question(question: str) -> None:
    """Refuse a question in which there is nothing to look for."""
    if not question.strip():
        raise UsageError("the question is empty; give it some words")


async def _search(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration
) -> tuple[list[DocumentMatch], str, int]:
    index = await index_in_use(kb)
    try:
        # Not opened first: an index that the store has lost is an error, not an empty answer.
        return await staged(Search(kb, index.key, question, settings))
    except StoreError:
        # A reindex may have put a successor in its place between the two calls.
        successor = await index_in_use(kb)
        if successor.key == index.key:
            raise
        return await staged(Search(kb, successor.key, question, settings))


async def rank(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration, limit: int
) -> list[DocumentMatch]:
    """What the strategy itself ranks, at least `limit` passages where there are so many.

    For evaluation: no threshold, no cut, repeats among them.
    """
    search = Search(kb, (await index_in_use(kb)).key, question, settings)
    return await STRATEGIES[strategy_of(settings, has_words=search.has_words)](search, limit)


async def staged(search: Searching) -> tuple[list[DocumentMatch], str, int]:
    """What the first stage finds that finds enough, its strategy and its number, see `stages`.

    Where none does, it is the stage that found most, the first of equals.
    """
    settings = search.settings
    if not settings.stages:
        return (*await ranked(search), 0)
    stages = stages_of(settings)
    check_stages(search, stages)
    # Judged by as many passages whatever top_k is, so that fewer stay the first of more.
    limit = max(settings.top_k, settings.min_results)
    best: tuple[list[DocumentMatch], str, int] = ([], settings.strategy, 0)
    for number, one in enumerate(stages):
        matches, name = await ranked(search.under(one.model_copy(update={"top_k": limit})))
        if suffices(matches, one, search.hit_score):
            best = (matches, name, number)
            break
        if number == 0 or len(matches) > len(best[0]):
            best = (matches, name, number)
    matches, name, number = best
    return matches[: settings.top_k], name, number


async def ranked(search: Searching) -> tuple[list[DocumentMatch], str]:
    """What the strategy ranks, without what scores too low and without repeats."""
    settings = search.settings
    name = strategy_of(settings, has_words=search.has_words)
    limit = settings.top_k
    while True:
        found = await STRATEGIES[name](search, limit)
        complete = len(found) != limit  # more than asked is all that there is
        kept = list(passing(found, settings, name))
        if search.dedupe:
            # A hit that lies within the neighbours of another makes room for one more.
            kept = without_repeats(kept, None if settings.neighbours else settings.top_k)
        if len(kept) >= settings.top_k or complete or limit > _MOST:
            break
        limit *= 4
    if settings.neighbours:
        return await with_neighbours(search, kept, settings.top_k), name
    return kept[: settings.top_k], name


def strategy_of(settings: RetrievalDeclaration, *, has_words: bool) -> str:
    """The strategy in effect: the default is `hybrid` where the store can search words."""
    if "strategy" not in settings.model_fields_set and not has_words:
        return "similarity"
    return settings.strategy


def passing(
    matches: Iterable[DocumentMatch], settings: RetrievalDeclaration, strategy: str
) -> Iterator[DocumentMatch]:
    """The matches whose figure reaches `min_score`.

    Raises:
        UsageError: the strategy has no such figure.
    """
    if settings.min_score is None:
        yield from matches
        return
    stage = settings.min_score_on or ("rerank" if strategy == "rerank" else "dense")
    for match in matches:
        if stage not in match.scores:
            raise UsageError(
                f"the strategy {strategy!r} has no figure {stage!r} for min_score; "
                f"known: {', '.join(sorted(match.scores))}"
            )
        if round(match.scores[stage], 6) >= settings.min_score or settings.min_score == 0:
            yield match


async def index_in_use(kb: KnowledgeBase) -> IndexEntry:
    index = await call(kb.catalog.ledger.index, kb.namespace, "active")
    if index is None:
        raise NotIngestedError(
            f"nothing has been ingested into knowledge base {kb.id!r} yet; run: {kb.ingest_command}"
        )
    if index.manifest.embedder_key != kb.embedder.fingerprint.key:
        raise IndexMismatchError(
            f"the index of knowledge base {kb.id!r} was built with the embedder "
            f"{index.manifest.embedder}, and the project now declares "
            f"{kb.embedder.fingerprint}; build it anew with: {kb.reindex_command}"
        )
    return index


def shortfall(kb: KnowledgeBase, result: QueryResult, settings: RetrievalDeclaration) -> str:
    """Why what was found is not likely to answer the question; empty when it is.

    Where `min_score` is set, every match has passed it already. Where it is not, the best match's
    cosine is compared with the score from which the embedder's hits usually start.
    """
    settings = stages_of(settings)[result.stage]
    found = len(result.matches)
    if found < settings.min_results:
        passing = "" if settings.min_score is None else f" scored {settings.min_score:g} or more"
        return (
            f"{found or 'no'} passage{'' if found == 1 else 's'} of {kb.id!r}{passing}; "
            f"at least {settings.min_results} would count as an answer"
        )
    if kb.embedder.hit_score is None or suffices(result.matches, settings, kb.embedder.hit_score):
        return ""
    best = max(match.scores["dense"] for match in result.matches)
    return (
        f"no passage of {kb.id!r} is likely to answer this: the best scored {best:.2f}, and with "
        f"this embedder answers usually start at {kb.embedder.hit_score:.2f}"
    )
