"""Searching knowledge bases, one or several as if they were one, whatever the strategy."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_knowledge.bridge import call
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.errors import (
    IndexMismatchError,
    LorebindError,
    NotIngestedError,
    UsageError,
)
from lorebind_knowledge.events import Event
from lorebind_knowledge.records import QueryResult
from lorebind_knowledge.retrieval.dedupe import without_repeats
from lorebind_knowledge.retrieval.hybrid import hybrid
from lorebind_knowledge.retrieval.judging import judge
from lorebind_knowledge.retrieval.lexical import lexical
from lorebind_knowledge.retrieval.mmr import mmr
from lorebind_knowledge.retrieval.neighbours import with_neighbours
from lorebind_knowledge.retrieval.query import Query
from lorebind_knowledge.retrieval.rerank import rerank
from lorebind_knowledge.retrieval.similarity import similarity
from lorebind_knowledge.retrieval.stages import check_stages, stages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.declarations import RetrievalDeclaration
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch, Vector
    from lorebind_knowledge.retrieval.query import Candidate, Strategy

T = TypeVar("T")
_Scored = TypeVar("_Scored", "Candidate", "DocumentMatch")

STRATEGIES: dict[str, Strategy] = {
    "similarity": similarity,
    "lexical": lexical,
    "hybrid": hybrid,
    "mmr": mmr,
    "rerank": hybrid,
}
"""What ranks the passages; of `rerank`, those that the reranker is given."""

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
    return await _search((kb,), question, settings or kb.retrieval)


async def search_several(
    kbs: Sequence[KnowledgeBase], question: str, settings: RetrievalDeclaration
) -> QueryResult:
    """The passages of several knowledge bases that answer a question best, in one ranking.

    Their figures are brought together before they are fused, so that a passage competes with those
    of all. That means something only where one embedder made the vectors.

    Args:
        kbs: the knowledge bases; those into which nothing was ingested are `skipped`.
        question: any text that is not blank.
        settings: how to search all of them.

    Raises:
        UsageError: a blank question, or embedders that differ.
        NotIngestedError: nothing has been ingested into any of them.
        LorebindError: see `search`; the first outage of any of them.
    """
    check_question(question)
    if len({kb.embedder.fingerprint.key for kb in kbs}) > 1:
        names = sorted({str(kb.embedder.fingerprint) for kb in kbs})
        raise UsageError(
            f"knowledge bases with different embedders ({', '.join(names)}) have no figures in "
            "common; ask them one by one"
        )
    if not kbs:
        raise UsageError("there is no knowledge base to search")
    return await _search(kbs, question, settings)


def check_question(question: str) -> None:
    """Refuse a question in which there is nothing to look for."""
    if not question.strip():
        raise UsageError("the question is empty; give it some words")


async def _search(
    kbs: Sequence[KnowledgeBase], question: str, settings: RetrievalDeclaration
) -> QueryResult:
    check_question(question)
    started = time.perf_counter()
    asked = settings.strategy
    _emit(kbs, "retrieval_started", strategy=asked, top_k=settings.top_k)
    try:
        vector = await embed_query(kbs[0].embedder, question)
        question_asked = _Asked(kbs, question, vector, {})
        matches, name, stage = await _staged(question_asked, settings)
    except LorebindError as error:
        _emit(kbs, "retrieval_failed", strategy=asked, reason=str(error))
        raise
    judged = judge(_name(kbs), matches, stages_of(settings)[stage], kbs[0].embedder.hit_score)
    seconds = time.perf_counter() - started
    found = Counter(match.metadata["kb_id"] for match in matches)
    missing = question_asked.missing
    searched = [kb for kb in kbs if kb.id not in missing]
    for kb in kbs:
        if kb.id in missing:
            _emit([kb], "retrieval_failed", strategy=asked, reason=missing[kb.id])
        else:
            data = {"strategy": name, "matches": found[kb.id], "seconds": seconds, "stage": stage}
            _emit([kb], "retrieval_completed", verdict=judged.verdict, **data)
    ids = [kb.id for kb in searched]
    return QueryResult(matches, name, ids, list(missing), seconds, stage, *judged)


def _emit(kbs: Iterable[KnowledgeBase], hook: str, **data: Any) -> None:
    for kb in kbs:
        kb.events.emit(hook, Event(kb.id, data=data))


@dataclass
class _Asked:
    """A question to some knowledge bases, embedded once."""

    kbs: Sequence[KnowledgeBase]
    question: str
    vector: Vector
    missing: dict[str, str]
    """Why knowledge bases were not searched that were not, by id."""

    async def read(self, settings: RetrievalDeclaration, ask: Callable[[Query], T]) -> T:
        """What `ask` answers, given views of all indexes at one moment; it may be called again.

        Raises:
            NotIngestedError: none of the knowledge bases has an index.
            IndexMismatchError: one of them was built by another embedder.
        """
        return await call(self._read, settings, ask)

    def _read(self, settings: RetrievalDeclaration, ask: Callable[[Query], T]) -> T:
        def asked(views: Mapping[str, View]) -> T:
            self.missing = {kb.id: not_ingested(kb) for kb in self.kbs if kb.id not in views}
            if not views:
                raise NotIngestedError(self.missing[self.kbs[0].id])
            return ask(Query(self.question, self.vector, settings, views))

        # A catalog in memory lets in one reader at a time: all take their turns in one order.
        return _with_views(sorted(self.kbs, key=lambda kb: id(kb.index)), {}, asked)


def _with_views(
    kbs: Sequence[KnowledgeBase], views: Mapping[str, View], ask: Callable[[Mapping[str, View]], T]
) -> T:
    """What `ask` answers, given views of the knowledge bases that have an index, by id."""
    if not kbs:
        return ask(views)
    # Those of one catalog share a transaction: an asker needs no more connections than catalogs.
    index = kbs[0].index
    here = [kb for kb in kbs if kb.index is index]
    others = [kb for kb in kbs if kb.index is not index]

    def ask_others(found: Mapping[Any, View]) -> T:
        ours = {kb.id: found[kb.namespace] for kb in here if kb.namespace in found}
        for kb in here:
            if kb.id in ours:
                check_embedder(kb, ours[kb.id].index)
        return _with_views(others, {**views, **ours}, ask)

    return index.read_several([kb.namespace for kb in here], ask_others)


def index_in_use(kb: KnowledgeBase) -> IndexEntry:
    """The index that searches of a knowledge base go to.

    Raises:
        NotIngestedError: nothing has been ingested yet.
        IndexMismatchError: the index was built by another embedder.
    """
    index = kb.index.catalog.ledger.index(kb.namespace, "active")
    if index is None:
        raise NotIngestedError(not_ingested(kb))
    check_embedder(kb, index)
    return index


def not_ingested(kb: KnowledgeBase) -> str:
    return f"nothing has been ingested into knowledge base {kb.id!r} yet; run: {kb.ingest_command}"


def check_embedder(kb: KnowledgeBase, index: IndexEntry) -> None:
    if index.manifest.embedder_key != kb.embedder.fingerprint.key:
        raise IndexMismatchError(
            f"the index of knowledge base {kb.id!r} was built with the embedder "
            f"{index.manifest.embedder}, and the project now declares "
            f"{kb.embedder.fingerprint}; build it anew with: {kb.reindex_command}"
        )


async def rank(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration, limit: int
) -> list[DocumentMatch]:
    """What the strategy itself ranks, at least `limit` passages where there are so many.

    For evaluation: no threshold, no cut, repeats among them.
    """
    asked = _Asked((kb,), question, await embed_query(kb.embedder, question), {})
    strategy = STRATEGIES[settings.strategy]
    ranked = await asked.read(settings, lambda query: query.passages(strategy(query, limit)))
    if settings.strategy == "rerank":
        return await _reranked(asked, settings, ranked)
    return ranked


async def _staged(
    asked: _Asked, settings: RetrievalDeclaration
) -> tuple[list[DocumentMatch], str, int]:
    """What the first stage finds that finds enough, its strategy and its number, see `stages`.

    Where none does, it is the stage that found most, the first of equals.
    """
    if not settings.stages:
        return await _ranked(asked, settings), settings.strategy, 0
    stages = stages_of(settings)
    check_stages(_name(asked.kbs), stages)
    # Judged by as many passages whatever top_k is, so that fewer stay the first of more.
    limit = max(settings.top_k, settings.min_results)
    best: tuple[list[DocumentMatch], str, int] = ([], settings.strategy, 0)
    for number, one in enumerate(stages):
        matches = await _ranked(asked, one.model_copy(update={"top_k": limit}))
        judged = judge(_name(asked.kbs), matches, one, asked.kbs[0].embedder.hit_score)
        enough = judged.verdict == "hit"
        if enough or number == 0 or len(matches) > len(best[0]):
            best = (matches, one.strategy, number)
        if enough:
            break
    matches, name, number = best
    return matches[: settings.top_k], name, number


async def _ranked(asked: _Asked, settings: RetrievalDeclaration) -> list[DocumentMatch]:
    """What the strategy ranks, without what scores too low and without repeats."""
    dedupe = any(kb.dedupe for kb in asked.kbs)
    if settings.strategy != "rerank":
        return await asked.read(settings, lambda query: _found(query, dedupe=dedupe))
    _check_rerank(asked, settings)
    candidates = await asked.read(settings, _candidates)
    kept: Iterable[DocumentMatch] = passing(
        await _reranked(asked, settings, candidates), settings, "rerank"
    )
    if dedupe:
        kept = without_repeats(kept)
    matches = list(kept)
    if not settings.neighbours:
        return matches[: settings.top_k]
    return await asked.read(settings, lambda query: with_neighbours(query, matches, settings.top_k))


def _found(query: Query, *, dedupe: bool) -> list[DocumentMatch]:
    settings = query.settings
    limit = top_k = settings.top_k
    while True:
        ranked = STRATEGIES[settings.strategy](query, limit)
        complete = len(ranked) != limit  # more than asked is all that there is
        passed = list(passing(ranked, settings, settings.strategy))
        if dedupe:
            # A hit that lies within the neighbours of another makes room for one more.
            most = None if settings.neighbours else top_k
            kept = without_repeats(query.read(passed, 2 * top_k), most)
        else:
            kept = list(query.passages(passed if settings.neighbours else passed[:top_k]))
        if len(kept) >= top_k or complete or limit > _MOST:
            break
        limit *= 4
    return with_neighbours(query, kept, top_k) if settings.neighbours else kept[:top_k]


def _candidates(query: Query) -> list[DocumentMatch]:
    """What a reranker is given."""
    assert query.settings.rerank is not None  # checked before
    ranked = hybrid(query, query.settings.top_k)
    return query.passages(ranked[: query.settings.rerank.candidates])


async def _reranked(
    asked: _Asked, settings: RetrievalDeclaration, candidates: Sequence[DocumentMatch]
) -> list[DocumentMatch]:
    make, declared = _check_rerank(asked, settings)
    return await rerank(make(declared), asked.question, candidates[: declared.candidates])


def _check_rerank(asked: _Asked, settings: RetrievalDeclaration) -> Any:
    """What makes a reranker, and the one that is declared.

    Raises:
        UsageError: there is none.
    """
    kb = asked.kbs[0]
    if settings.rerank is None:
        raise UsageError(
            f"{_name(asked.kbs)} is searched with the strategy 'rerank', which needs a reranker; "
            "write: rerank: { class: 'package.module:Class' }"
        )
    if kb.reranker is None:
        raise UsageError(f"{_name(asked.kbs)} was made without rerankers")
    return kb.reranker, settings.rerank


def _name(kbs: Sequence[KnowledgeBase]) -> str:
    """What is searched, for messages."""
    ids = ", ".join(repr(kb.id) for kb in kbs)
    return f"knowledge base{'' if len(kbs) == 1 else 's'} {ids}"


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
