"""Search one knowledge base, or several as if they were one, with any strategy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lorebind_config.declarations.retrieval import NEEDS_VECTORS
from lorebind_config.errors import (
    IndexMismatchError,
    NotIngestedError,
    UsageError,
    did_you_mean,
    nearest,
)
from lorebind_config.filters import required_fields, resolved
from lorebind_knowledge.embedders.base import embed_query, makes_vectors
from lorebind_knowledge.embedders.sparse.base import embed_query as embed_terms
from lorebind_knowledge.index.adding_terms import has_terms
from lorebind_knowledge.index.index import read_indexes
from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.plumbing.lanes import threads_of
from lorebind_knowledge.retrieval.base import Search, check_question, run_search
from lorebind_knowledge.retrieval.diversity import (
    LOOKED_THROUGH,
    spread,
    spread_matches,
    without_repeats,
)
from lorebind_knowledge.retrieval.judging import passing
from lorebind_knowledge.retrieval.neighbours import with_neighbours
from lorebind_knowledge.retrieval.query import Query
from lorebind_knowledge.retrieval.recency import by_recency, counts_recency, fields_of
from lorebind_knowledge.retrieval.strategies import (
    before_reranking,
    declared_reranker,
    hybrid,
    mmr,
    rerank,
)

if TYPE_CHECKING:
    from lorebind_config.declarations.retrieval import RetrievalDeclaration
    from lorebind_config.namespace import Namespace
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.index.index import Index
    from lorebind_knowledge.index.view import View
    from lorebind_knowledge.knowledge_base import IndexedKnowledgeBase
    from lorebind_knowledge.records import DocumentMatch, QueryResult, SparseVector, Vector
    from lorebind_knowledge.retrieval.query import Ranking, Strategy

STRATEGIES: dict[str, Strategy] = {
    "similarity": Query.nearest,
    "lexical": Query.bm25_search,
    "hybrid": hybrid,
    "mmr": hybrid,
    "rerank": hybrid,
}
"""The functions that rank passages; `mmr` and rerankers reorder the candidates of `hybrid`."""

_BY_RANK = ("similarity", "lexical")
"""The strategies that return as many candidates as requested, not all that they have."""

_MOST = 1000
"""Maximum number of passages to inspect to fill `top_k` if many repeat each other."""


async def search(
    kbs: Sequence[IndexedKnowledgeBase], question: str, settings: RetrievalDeclaration
) -> QueryResult:
    """Return the passages that answer a question best, in one ranking, best first.

    Raw scores of all knowledge bases are merged before they are fused, so that all passages compete
    with each other. This is meaningful only if the same embedder made all vectors.

    Args:
        kbs: the knowledge bases; those without an ingest are listed as `skipped`.
        question: any text that is not blank.
        settings: how to search all of them.

    Raises:
        UsageError: the question is blank, the filter is invalid, or the embedders differ.
        NotIngestedError: nothing has been ingested into any of them.
        IndexMismatchError: an index was built by another embedder.
        EmbedderError, StoreError: a part is unavailable; an outage never gives an empty result.
    """
    check_question(question)
    if not kbs:
        raise UsageError("there is no knowledge base to search")
    if len({kb.embedder.fingerprint.key for kb in kbs}) > 1:
        names = sorted({str(kb.embedder.fingerprint) for kb in kbs})
        raise UsageError(
            f"knowledge bases with different embedders ({', '.join(names)}) have no comparable "
            "scores; search them one by one",
            at=("knowledge_bases",),
        )
    return await run_search(IndexSearch(kbs, question), settings)


@dataclass
class IndexSearch(Search):
    """A question to indexes, embedded only once."""

    kbs: Sequence[IndexedKnowledgeBase]
    question: str
    vector: Vector | None = None
    terms: SparseVector | None = None
    """The question's terms, if all knowledge bases have the same sparse embedder."""
    missing: dict[str, NotIngestedError] = field(default_factory=dict)
    notices: dict[str, str] = field(default_factory=dict)

    async def ranked(self, settings: RetrievalDeclaration) -> tuple[list[DocumentMatch], float]:
        await self.embed(settings)
        with self.lane():
            if settings.strategy == "rerank":
                return await self._reranked(settings)
            return await call(read_indexes, self.indexes, partial(self._find, settings))

    async def _reranked(self, settings: RetrievalDeclaration) -> tuple[list[DocumentMatch], float]:
        judged = await self.rerank(settings)
        best = max((match.relevance for match in judged), default=0.0)
        matches = spread_matches(passing(judged, settings), settings.max_per_document)
        if self._dedupe:
            matches = without_repeats(matches)
        if settings.neighbours:

            def extend(views: Mapping[Namespace, View]) -> list[DocumentMatch]:
                return with_neighbours(self.query(settings, views), matches, settings.top_k)

            return await call(read_indexes, self.indexes, extend), best
        return matches[: settings.top_k], best

    async def rerank(self, settings: RetrievalDeclaration) -> list[DocumentMatch]:
        """Return the passages that the reranker receives, in its order."""
        reranker, most = declared_reranker(self, settings)
        find = partial(self.rank, before_reranking(settings), most)
        candidates = await call(read_indexes, self.indexes, find)
        return await rerank(reranker, self.question, candidates, settings)

    async def embed(self, settings: RetrievalDeclaration) -> None:
        """Embed the question as the settings need it. Call it before the indexes are read."""
        if self.vector is None and makes_vectors(self.kbs[0].embedder):
            self.vector = await embed_query(self.kbs[0].embedder, self.question)
        sparse = self.kbs[0].sparse
        if self.terms is None and sparse is not None and _uses_terms(settings):
            keys = {kb.sparse.fingerprint.key if kb.sparse else "" for kb in self.kbs}
            # Weights of different models cannot be compared.
            if len(keys) == 1:
                self.terms = await embed_terms(sparse, self.question)

    def check(self, settings: RetrievalDeclaration) -> None:
        if makes_vectors(self.kbs[0].embedder):
            return
        field, value, hint = "", "", ""
        if settings.strategy in NEEDS_VECTORS:
            field, value = "strategy", f"the strategy {settings.strategy!r}"
            hint = "use hybrid, lexical or rerank"
        elif settings.fusion.smoothing.weight:
            field, value, hint = "fusion", "smoothing", "set its weight to 0"
        elif not settings.signals.lexical + settings.signals.terms:
            field, value, hint = "signals", "dense", "give lexical or terms a share"
        if field:
            message = f"{self.name} has no vectors (embedder: none) for {value}; {hint}"
            raise UsageError(message, at=(field,))

    def lane(self) -> AbstractContextManager[None]:
        """Return a block in which `call` uses the threads of the searched databases."""
        remote = any(kb.catalog.is_remote for kb in self.kbs)
        threads = threads_of(kb.threads for kb in self.kbs)
        return threads.lane("wait" if remote else "search")

    @property
    def indexes(self) -> dict[Index, list[Namespace]]:
        """The vector databases to read, with the knowledge bases that each stores."""
        indexes: dict[Index, list[Namespace]] = {}
        for kb in self.kbs:
            indexes.setdefault(kb.index, []).append(kb.namespace)
        return indexes

    @property
    def _dedupe(self) -> bool:
        return any(kb.dedupe for kb in self.kbs)

    # Each of these is called with the views of all indexes, perhaps more than once.

    def _find(
        self, settings: RetrievalDeclaration, views: Mapping[Namespace, View]
    ) -> tuple[list[DocumentMatch], float]:
        """Return at most `top_k` passages, and the highest relevance of a candidate."""
        query = self.query(settings, views)
        limit = top_k = settings.top_k
        if settings.max_per_document is not None:
            limit = max(limit, LOOKED_THROUGH)
        if settings.strategy == "lexical":  # judged by the same candidates for every top_k
            limit = max(limit, settings.fusion.depth)
        limit = _enough(settings, limit)
        while True:
            ranked, best = _ranked(query, limit)
            complete = len(ranked) != limit  # a strategy that returns more returns all it has
            passed = _passed(query, ranked)
            if self._dedupe:
                # A hit that lies within the neighbors of another makes room for one more.
                most = None if settings.neighbours else top_k
                matches = without_repeats(query.read(passed, top_k + 1), most)
            else:
                matches = query.passages(passed if settings.neighbours else passed[:top_k])
            if settings.neighbours:
                matches = with_neighbours(query, matches, top_k)
            if len(matches) >= top_k or complete or limit > _MOST:
                break
            limit *= 4
        # With min_score, the first passage can come after the candidates that a lexical search
        # judges.
        best = max(best, matches[0].relevance) if matches else best
        return matches[:top_k], best

    def rank(
        self, settings: RetrievalDeclaration, limit: int, views: Mapping[Namespace, View]
    ) -> list[DocumentMatch]:
        """Return the first passages in the ranking of the strategy itself."""
        query = self.query(settings, views)
        return query.passages(_ranked(query, _enough(settings, limit))[0][:limit])

    def query(self, settings: RetrievalDeclaration, views: Mapping[Namespace, View]) -> Query:
        """Return a query of the indexes that exist, and note what the caller should know of them.

        Raises:
            NotIngestedError: none of the knowledge bases has an index.
            IndexMismatchError: one of the indexes was built by another embedder.
            UsageError: the filter is malformed.
        """
        by_id = {kb.id: views[kb.namespace] for kb in self.kbs if kb.namespace in views}
        self.missing = {kb.id: not_ingested(kb) for kb in self.kbs if kb.id not in by_id}
        if not by_id:
            raise self.missing[self.kbs[0].id]
        for kb in self.kbs:
            if kb.id in by_id:
                check_embedder(kb, by_id[kb.id].index)
        self._compare_addresses(by_id)
        if settings.filters:
            filters = resolved(settings.filters)  # here, so that all parts count ages from one time
            settings = settings.model_copy(update={"filters": filters})
            self._look_for_keys(required_fields(settings.filters), by_id.values())
        for setting, names in fields_of(settings).items():
            self._look_for_keys(dict.fromkeys(names, True), by_id.values(), setting)
        if settings.versions is not None and settings.versions.newest:
            for view in by_id.values():
                view.find_newest(settings.versions)
        terms = self.terms if _uses_terms(settings) and self._have_terms(by_id) else None
        return Query(self.question, self.vector, settings, by_id, terms)

    def _have_terms(self, views: Mapping[str, View]) -> bool:
        """Return whether all indexes have the terms that the settings count, or add a notice."""
        have_terms = self.terms is not None
        for kb in self.kbs:
            if kb.sparse is None or kb.id not in views:
                continue
            if not has_terms(views[kb.id].index.manifest, kb.sparse):
                have_terms = False
                self.notices[f"terms of {kb.id}"] = (
                    f"the passages of {kb.id!r} have no terms of {kb.sparse.fingerprint} yet, so "
                    f"the search goes on without terms; add them with: {kb.ingest_command}"
                )
        return have_terms

    def _compare_addresses(self, views: Mapping[str, View]) -> None:
        """Add a notice if the embedder's address has changed since the index was built."""
        embedder = self.kbs[0].embedder.fingerprint
        for kb in self.kbs:
            if kb.id in views and views[kb.id].index.manifest.address != embedder.address:
                self.notices[f"address of {kb.id}"] = (
                    f"the index of {kb.id!r} was built with another address of the embedder "
                    f"{embedder}, which may serve another model; check it with: {kb.ingest_command}"
                )

    def _look_for_keys(
        self, names: Mapping[str, bool], views: Collection[View], where: str = "the filter"
    ) -> None:
        """Add a notice for each key in the settings that no document's metadata has."""
        views = [view for view in views if view.state.live]
        for name, required in names.items():
            if views and not any(view.has_metadata_key(name) for view in views):
                known_keys = {key for view in views for key in view.metadata_keys()}
                # To exclude documents by a key that none has yet is no mistake, unless it is one
                # of the known keys, misspelled.
                if required or nearest(name, known_keys):
                    self.notices[name] = (
                        f"no document of {self.name} has the metadata key {name!r}, which {where} "
                        f"names{'' if required else ' to exclude documents'}; "
                        f"{did_you_mean(name, known_keys)}"
                    )


def _uses_terms(settings: RetrievalDeclaration) -> bool:
    return settings.strategy not in ("similarity", "lexical") and settings.signals.terms > 0


def index_in_use(kb: IndexedKnowledgeBase) -> IndexEntry:
    """Return the index that searches of a knowledge base read.

    Raises:
        NotIngestedError: nothing has been ingested yet.
        IndexMismatchError: the index was built by another embedder.
    """
    index = kb.index.catalog.ledger.index(kb.namespace, "active")
    if index is None:
        raise not_ingested(kb)
    check_embedder(kb, index)
    return index


def not_ingested(kb: IndexedKnowledgeBase) -> NotIngestedError:
    fill = kb.fill_command
    return NotIngestedError(
        f"nothing has been ingested into knowledge base {kb.id!r} yet; run: {fill}",
        suggestions=[fill],
    )


def check_embedder(kb: IndexedKnowledgeBase, index: IndexEntry) -> None:
    if kb.embedder.fingerprint.key != index.manifest.embedder_key:
        raise IndexMismatchError(
            f"the index of knowledge base {kb.id!r} was built with the embedder "
            f"{index.manifest.embedder}, and the project now declares "
            f"{declared_embedder(kb, index)}; rebuild it with: {kb.reindex_command}",
            suggestions=[kb.reindex_command],
        )


def declared_embedder(kb: IndexedKnowledgeBase, index: IndexEntry) -> str:
    """Return the name of the declared embedder, if it is not the one that built the index."""
    name = str(kb.embedder.fingerprint)
    return f"{name} with other settings" if name == index.manifest.embedder else name


async def rank(
    kb: IndexedKnowledgeBase, question: str, settings: RetrievalDeclaration, limit: int
) -> list[DocumentMatch]:
    """Return the ranking of the strategy itself, `limit` passages if there are enough.

    For evaluation: thresholds and `top_k` are not applied, and duplicates are not removed.
    """
    search = IndexSearch((kb,), question)
    search.check(settings)
    settings = settings.model_copy(update={"min_score_on": None})
    await search.embed(settings)
    with search.lane():
        if settings.strategy == "rerank":
            return await search.rerank(settings)
        return await call(read_indexes, search.indexes, partial(search.rank, settings, limit))


def _ranked(query: Query, limit: int) -> tuple[Ranking, float]:
    """Return `limit` passages or all that there are, and the highest relevance of a candidate."""
    settings = query.settings
    candidates = STRATEGIES[settings.strategy](query, limit)
    depth = settings.fusion.depth
    if settings.strategy == "lexical":
        best = query.best_relevance(candidates, depth)
    else:
        best = query.best_relevance(candidates)
    if counts_recency(settings):
        returns_all = settings.strategy not in _BY_RANK
        candidates = by_recency(query, candidates, None if returns_all else depth)
    return (mmr(query, candidates, limit) if settings.strategy == "mmr" else candidates), best


def _enough(settings: RetrievalDeclaration, limit: int) -> int:
    """Return how many passages to rank, so that recency moves the same ones for every limit."""
    moves_some = counts_recency(settings) and settings.strategy in _BY_RANK
    return max(limit, settings.fusion.depth) if moves_some else limit


def _passed(query: Query, ranked: Ranking) -> Ranking:
    """Return the passages that reach `min_score`, spread by `max_per_document`."""
    settings = query.settings
    if settings.min_score is None and settings.max_per_document is None:
        return ranked
    first, others = (
        passing(some, settings) for some in (ranked[:LOOKED_THROUGH], ranked[LOOKED_THROUGH:])
    )
    if settings.max_per_document is not None:
        documents = query.documents([candidate[:3] for candidate in first])
        first = spread(first, documents, settings.max_per_document)
    return [*first, *others]
