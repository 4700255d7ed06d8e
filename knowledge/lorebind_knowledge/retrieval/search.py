"""Search one knowledge base, or several as if they were one, with any strategy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from lorebind_config.errors import (
    IndexMismatchError,
    NotIngestedError,
    UsageError,
    did_you_mean,
    nearest,
)
from lorebind_config.filters import required_fields
from lorebind_knowledge.bridge import call
from lorebind_knowledge.embedders.base import embed_query
from lorebind_knowledge.lanes import threads_of
from lorebind_knowledge.retrieval.base import Search, check_question, run_search
from lorebind_knowledge.retrieval.dedupe import without_repeats
from lorebind_knowledge.retrieval.hybrid import hybrid
from lorebind_knowledge.retrieval.judging import passing
from lorebind_knowledge.retrieval.lexical import lexical
from lorebind_knowledge.retrieval.mmr import mmr
from lorebind_knowledge.retrieval.neighbours import with_neighbours
from lorebind_knowledge.retrieval.query import Query
from lorebind_knowledge.retrieval.rerank import before_reranking, declared_reranker, rerank
from lorebind_knowledge.retrieval.similarity import similarity
from lorebind_knowledge.retrieval.spread import LOOKED_THROUGH, spread, spread_matches

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from lorebind_config.declarations import RetrievalDeclaration
    from lorebind_knowledge.catalog.ledger import IndexEntry
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import KnowledgeBase
    from lorebind_knowledge.records import DocumentMatch, QueryResult, Vector
    from lorebind_knowledge.retrieval.query import Ranking, Strategy

T = TypeVar("T")

STRATEGIES: dict[str, Strategy] = {
    "similarity": similarity,
    "lexical": lexical,
    "hybrid": hybrid,
    "mmr": hybrid,
    "rerank": hybrid,
}
"""The functions that rank passages; `mmr` and rerankers reorder the candidates of `hybrid`."""

_MOST = 1000
"""Maximum number of passages to inspect to fill `top_k` if many repeat each other."""


async def search(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration | None = None
) -> QueryResult:
    """Return the passages of a knowledge base that answer a question best, best first.

    Args:
        kb: the knowledge base.
        question: any text that is not blank.
        settings: how to search; None means the knowledge base's own `retrieval`.

    Raises:
        UsageError: the question is blank or the filter is invalid.
        NotIngestedError: nothing has been ingested yet.
        IndexMismatchError: the index was built by another embedder.
        EmbedderError, StoreError: a part is unavailable; an outage never gives an empty result.
    """
    return await run_search(_IndexSearch((kb,), question), settings or kb.retrieval)


async def search_several(
    kbs: Sequence[KnowledgeBase], question: str, settings: RetrievalDeclaration
) -> QueryResult:
    """Return the passages of several knowledge bases that answer a question best, in one ranking.

    Raw scores of all knowledge bases are merged before they are fused, so that all passages compete
    with each other. This is meaningful only if the same embedder made all vectors.

    Args:
        kbs: the knowledge bases; those without an ingest are listed as `skipped`.
        question: any text that is not blank.
        settings: how to search all of them.

    Raises:
        UsageError: the question is blank, or the embedders differ.
        NotIngestedError: nothing has been ingested into any of them.
        LorebindError: see `search`; the first outage of any of them.
    """
    check_question(question)
    if len({kb.embedder.fingerprint.key for kb in kbs}) > 1:
        names = sorted({str(kb.embedder.fingerprint) for kb in kbs})
        raise UsageError(
            f"knowledge bases with different embedders ({', '.join(names)}) have no comparable "
            "scores; search them one by one",
            at=("knowledge_bases",),
        )
    if not kbs:
        raise UsageError("there is no knowledge base to search")
    return await run_search(_IndexSearch(kbs, question), settings)


@dataclass
class _IndexSearch(Search):
    """A question to indexes, embedded only once."""

    kbs: Sequence[KnowledgeBase]
    question: str
    vector: Vector | None = None
    missing: dict[str, str] = field(default_factory=dict)
    notices: dict[str, str] = field(default_factory=dict)

    async def ranked(self, settings: RetrievalDeclaration) -> tuple[list[DocumentMatch], float]:
        dedupe = any(kb.dedupe for kb in self.kbs)
        if settings.strategy != "rerank":
            return await self.read(settings, lambda query: _found(query, dedupe=dedupe))
        reranker, most = declared_reranker(self, settings)
        candidates = await self.read(before_reranking(settings), _candidates)
        judged = await rerank(reranker, self.question, candidates[:most], settings)
        best = max((match.relevance for match in judged), default=0.0)
        passed = list(passing(judged, settings))
        passed = spread_matches(passed, settings.max_per_document)
        kept = without_repeats(passed) if dedupe else passed
        if not settings.neighbours:
            return kept[: settings.top_k], best
        grown = await self.read(
            settings, lambda query: with_neighbours(query, kept, settings.top_k)
        )
        return grown, best

    async def read(self, settings: RetrievalDeclaration, ask: Callable[[Query], T]) -> T:
        """Return the result of `ask`, called with views of all indexes at one moment.

        `ask` may be called more than once.

        Raises:
            NotIngestedError: none of the knowledge bases has an index.
            IndexMismatchError: one of the indexes was built by another embedder.
        """
        if self.vector is None:
            self.vector = await embed_query(self.kbs[0].embedder, self.question)
        remote = any(kb.catalog.is_remote for kb in self.kbs)
        threads = threads_of(kb.threads for kb in self.kbs)
        with threads.lane("wait" if remote else "search"):
            return await call(self._read, self.vector, settings, ask)

    def _read(self, vector: Vector, settings: RetrievalDeclaration, ask: Callable[[Query], T]) -> T:
        def asked(views: Mapping[str, View]) -> T:
            self.missing = {kb.id: not_ingested(kb) for kb in self.kbs if kb.id not in views}
            if not views:
                raise NotIngestedError(self.missing[self.kbs[0].id])
            self._compare_addresses(views)
            answer = ask(Query(self.question, vector, settings, views))
            # The filter is valid here: an invalid one would have raised.
            self._look_for_keys(required_fields(settings.filters), views.values())
            return answer

        # A catalog in memory admits one reader at a time: all searches enter in the same order.
        return _with_views(sorted(self.kbs, key=lambda kb: id(kb.index)), {}, asked)

    def _compare_addresses(self, views: Mapping[str, View]) -> None:
        """Add a notice if the embedder's address has changed since the index was built."""
        embedder = self.kbs[0].embedder.fingerprint
        for kb in self.kbs:
            if kb.id in views and views[kb.id].index.manifest.address != embedder.address:
                self.notices[f"address of {kb.id}"] = (
                    f"the index of {kb.id!r} was built with another address of the embedder "
                    f"{embedder}, which may serve another model; check it with: {kb.ingest_command}"
                )

    def _look_for_keys(self, names: Mapping[str, bool], views: Collection[View]) -> None:
        """Add a notice for each key in the filter that no document's metadata has."""
        views = [view for view in views if view.state.live]
        for name, required in names.items():
            if views and not any(view.has_metadata_key(name) for view in views):
                known = {key for view in views for key in view.metadata_keys()}
                # To exclude documents by a key that none has yet is no mistake, unless it is one
                # of the known keys, misspelled.
                if required or nearest(name, known):
                    self.notices[name] = (
                        f"no document of {self.name} has the metadata key {name!r}, which the "
                        f"filter names{'' if required else ' to exclude documents'}; "
                        f"{did_you_mean(name, known)}"
                    )


def _with_views(
    kbs: Sequence[KnowledgeBase], views: Mapping[str, View], ask: Callable[[Mapping[str, View]], T]
) -> T:
    """Return the result of `ask`, called with views of the indexed knowledge bases, by id."""
    if not kbs:
        return ask(views)
    # Indexes of one catalog share a transaction: a search needs one connection per catalog.
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
    """Return the index that searches of a knowledge base read.

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
    return f"nothing has been ingested into knowledge base {kb.id!r} yet; run: {kb.fill_command}"


def check_embedder(kb: KnowledgeBase, index: IndexEntry) -> None:
    if kb.embedder.fingerprint.key != index.manifest.embedder_key:
        raise IndexMismatchError(
            f"the index of knowledge base {kb.id!r} was built with the embedder "
            f"{index.manifest.embedder}, and the project now declares "
            f"{kb.embedder.fingerprint}; rebuild it with: {kb.reindex_command}",
            kb.reindex_command,
        )


async def rank(
    kb: KnowledgeBase, question: str, settings: RetrievalDeclaration, limit: int
) -> list[DocumentMatch]:
    """Return the ranking of the strategy itself, at least `limit` passages if there are enough.

    For evaluation: thresholds and `top_k` are not applied, and duplicates are not removed.
    """
    search = _IndexSearch((kb,), question)
    settings = settings.model_copy(update={"min_score_on": None})
    if settings.strategy == "rerank":
        reranker, most = declared_reranker(search, settings)
        candidates = await search.read(before_reranking(settings), _candidates)
        return await rerank(reranker, question, candidates[:most], settings)
    return await search.read(settings, lambda query: query.passages(_ranked(query, limit)[0]))


def _ranked(query: Query, limit: int) -> tuple[Ranking, float]:
    """Return `limit` passages or all that there are, and the highest relevance of a candidate."""
    settings = query.settings
    candidates = STRATEGIES[settings.strategy](query, limit)
    if settings.strategy == "lexical":
        return candidates, query.best_relevance(candidates, settings.fusion.depth)
    best = query.best_relevance(candidates)
    return (mmr(query, candidates, limit) if settings.strategy == "mmr" else candidates), best


def _found(query: Query, *, dedupe: bool) -> tuple[list[DocumentMatch], float]:
    settings = query.settings
    limit = top_k = settings.top_k
    if settings.max_per_document is not None:
        limit = max(limit, LOOKED_THROUGH)
    if settings.strategy == "lexical":  # judged by the same candidates for every top_k
        limit = max(limit, settings.fusion.depth)
    while True:
        ranked, best = _ranked(query, limit)
        complete = len(ranked) != limit  # a strategy that returns more returns all it has
        passed = _passed(query, ranked)
        if dedupe:
            # A hit that lies within the neighbors of another makes room for one more.
            most = None if settings.neighbours else top_k
            kept = without_repeats(query.read(passed, top_k + 1), most)
        else:
            kept = list(query.passages(passed if settings.neighbours else passed[:top_k]))
        if settings.neighbours:
            kept = with_neighbours(query, kept, top_k)
        if len(kept) >= top_k or complete or limit > _MOST:
            break
        limit *= 4
    # With min_score, the first passage can come after the candidates that a lexical search judges.
    best = max(best, kept[0].relevance) if kept else best
    return kept[:top_k], best


def _passed(query: Query, ranked: Ranking) -> Ranking:
    """Return the passages that reach `min_score`, spread by `max_per_document`."""
    settings = query.settings
    if settings.min_score is None and settings.max_per_document is None:
        return ranked
    first, others = (
        list(passing(some, settings)) for some in (ranked[:LOOKED_THROUGH], ranked[LOOKED_THROUGH:])
    )
    if settings.max_per_document is not None:
        documents = query.documents([one[:3] for one in first])
        first = spread(first, documents, settings.max_per_document)
    return [*first, *others]


def _candidates(query: Query) -> list[DocumentMatch]:
    """Return the passages that the reranker receives."""
    assert query.settings.rerank is not None  # checked before
    ranked = hybrid(query, query.settings.top_k)
    return query.passages(ranked[: query.settings.rerank.candidates])
