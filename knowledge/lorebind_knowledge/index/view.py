"""An index at one moment: searches of the store, checked against a snapshot of the catalog.

The snapshot is opened before the store is searched, and chunks that it does not have are not found.
The result is therefore that of one moment, although store and catalog are separate. `Index.read`
checks afterwards whether the store may have deleted vectors since that moment.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lorebind_config.errors import StoreError, UsageError
from lorebind_config.filters import compile_filter, resolved, without_fields
from lorebind_config.namespace import COLLECTION_SCOPE
from lorebind_knowledge.catalog.chunks import Chunks
from lorebind_knowledge.catalog.excluded import excluded_uris
from lorebind_knowledge.cosines import MARGIN, best_first, cosines, direction_of, scores_of
from lorebind_knowledge.plumbing.bridge import finish
from lorebind_knowledge.records import SPANS
from lorebind_knowledge.stores.base import LostVectorsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from lorebind_config.declarations.newest import VersionsDeclaration
    from lorebind_knowledge.catalog.chunks import Member, State, StoredChunk
    from lorebind_knowledge.catalog.indexes import IndexEntry
    from lorebind_knowledge.database.sql import Sql
    from lorebind_knowledge.index.masks import Masks
    from lorebind_knowledge.index.matches import Matches
    from lorebind_knowledge.index.memory import Memory
    from lorebind_knowledge.index.terms import QueryTerms
    from lorebind_knowledge.index.words import QueryWords
    from lorebind_knowledge.records import SparseVector, Vector
    from lorebind_knowledge.stores.base import SearchHits, VectorStore

_FEW = 256
"""Number of passages whose vectors are read from the catalog instead of asking the store."""
_MOST_AT_FIRST = 1000
"""How many candidates are asked for at first, however few of them pass."""
_GROWTH = 4
_SAMPLE = 20


class Hits(NamedTuple):
    """Chunks that a search found, as columns. Their texts are not read yet."""

    numbers: NDArray[np.int64]
    ids: list[str]
    scores: NDArray[np.float64]
    """Cosines or BM25 values."""

    def at(self, positions: Sequence[int]) -> Hits:
        """Return the chunks at some positions, in the order of the positions."""
        chosen = np.array(positions, np.intp)
        ids = [self.ids[at] for at in positions]
        return Hits(self.numbers[chosen], ids, self.scores[chosen])

    def best(self, k: int, best_score: float = 1.0) -> Hits:
        """Return the best `k` by score, ties by id. A score is a figure divided by `figure`."""
        return self.at(best_first(scores_of(self.scores / best_score), self.ids)[:k])


NO_HITS = Hits(np.zeros(0, np.int64), [], np.zeros(0))


class _Filter(NamedTuple):
    """The filter of a search."""

    where: Mapping[str, Any]
    """A well-formed filter."""
    for_store: Mapping[str, Any]
    """The filter without conditions on fields that the store does not have."""
    allowed_ids: NDArray[np.int64] | None
    """The numbers of the chunks that pass, ascending; None if all pass, or if the store filters and
    all versions of documents are searched."""
    total: int | None
    """Number of chunks that pass, if known."""


class View(Chunks):
    """A view of one index within one read transaction of the catalog. For one thread only."""

    def __init__(
        self,
        index: IndexEntry,
        state: State,
        sql: Sql,
        store: VectorStore,
        memory: Memory,
    ) -> None:
        super().__init__(sql, index.index_uid)
        self.index, self.state = index, state
        self._store, self._memory = store, memory
        self._space = index.space
        self._members = memory.members(index.index_uid, state.version)
        self._versions: VersionsDeclaration | None = None
        self._query_words: tuple[str, QueryWords] | None = None
        self._query_terms: tuple[SparseVector, QueryTerms] | None = None
        self._vectors: dict[int, Any] = {}
        """The vectors that the store has given so far, by number."""

    def find_newest(self, versions: VersionsDeclaration) -> None:
        """From now on, find only the newest versions of documents."""
        self._versions = versions

    def newest_of(self, numbers: Sequence[int], where: Mapping[str, Any]) -> Sequence[int]:
        """Return those of some chunks that pass a filter and are of the newest version."""
        newest = self._filter(1, where)
        return _inside(numbers, newest.allowed_ids) if newest.total else []

    @property
    def excluded(self) -> frozenset[str]:
        """The uris of the documents that searches must not find."""
        read = partial(excluded_uris, self._sql, self.index.key.namespace)
        return self._memory.excluded(self.index.index_uid, self.state.version, read)

    def has_metadata_key(self, key: str) -> bool:
        """Return whether the metadata of any chunk has a key."""
        keys = self._memory.keys(self.index.index_uid, self.state.version)
        if keys.every is not None:
            return key in keys.every
        if key not in keys.there:
            if not super().has_metadata_key(key):
                return False
            keys.there.add(key)
        return True

    def metadata_keys(self) -> list[str]:
        """Return all metadata keys of chunks, sorted. The first call reads every chunk."""
        keys = self._memory.keys(self.index.index_uid, self.state.version)
        if keys.every is None:
            keys.every = super().metadata_keys()
        return keys.every

    def nearest(self, vector: Vector, k: int, where: Mapping[str, Any] | None = None) -> Hits:
        """Return the `k` chunks nearest to a vector, with cosines, best score first, ties by id.

        Raises:
            StoreError: the vector has another dimension than the index, or holds NaN or infinity;
                an outage; the store has lost vectors.
            UsageError: the filter is malformed, or `k` is less than 1.
        """
        only = self._filter(k, where)
        self._check(vector)
        if only.total == 0:
            return NO_HITS
        direction = direction_of(vector)
        # A vector of length 0 is equally near to all: the scores below give the order.
        unit = direction if direction.any() else np.eye(1, len(direction))[0]
        query: Vector = unit.astype(np.float32)
        dead = self.state.entered - self.state.live
        # Some more than `k`, because the next ones are often too close to the last to tell apart.
        # At most the number of entries, or the database may read the vectors of other indexes.
        # At least one, so that damaged counts end the search with an error.
        ask = max(min(k + 1 + k // 10 + min(dead, max(k, 16)), self.state.entered), 1)
        if only.allowed_ids is not None and not self._store.returns_vectors:
            # The store searches among all: each request costs as much as a search without a filter.
            if len(only.allowed_ids) <= _FEW:
                scores = self.cosines(vector, only.allowed_ids)
                return self._hits(only.allowed_ids.tolist(), scores, only).best(k)
            share = len(only.allowed_ids) / self.state.entered
            ask = max(ask, min(int(2 * ask / share), self.state.entered, _MOST_AT_FIRST))
        among = None if self._store.filters else only.allowed_ids
        while True:
            candidates = finish(self._store.nearest(self._space, query, ask, only.for_store, among))
            hits, last = self._judged(candidates, direction, only)
            best = hits.best(k)
            if len(hits.ids) == only.total:
                return best
            if len(candidates.numbers) < ask or self._are_all(candidates):
                is_exact = self._store.is_exact or candidates.is_exact
                self._check_complete(len(hits.ids), only, is_exact=is_exact)
                return best
            # Vectors that the store omits are no nearer than its last one, except for rounding.
            if len(best.ids) == k and max(last, 0) < best.scores[-1] - MARGIN:
                return best
            if last <= 0 and not only.where and only.allowed_ids is None:
                return self._filled(hits, vector, k)
            ask *= _GROWTH

    def bm25_search(self, question: str, k: int, where: Mapping[str, Any] | None = None) -> Hits:
        """Return the `k` chunks that best match a question by BM25, best first, ties by id.

        A chunk matches if it has any of the words. The rarity of a word is counted over the live
        chunks of this index only.

        Raises:
            UsageError: the filter is malformed, or `k` is less than 1.
        """
        return self._best_of(lambda: self.words(question), k, where)

    def terms_search(
        self, terms: SparseVector, k: int, where: Mapping[str, Any] | None = None
    ) -> Hits:
        """Return the `k` chunks that best match the terms of a question, best first, ties by id.

        Raises:
            UsageError: the filter is malformed, or `k` is less than 1.
        """
        return self._best_of(lambda: self.terms(terms), k, where)

    def bm25_scores(self, question: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the BM25 of chunks, in the order of the numbers; 0 for chunks without a match."""
        if not len(numbers):
            return np.zeros(0)
        return self.words(question).scores(numbers)

    def document_scores(self, question: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the BM25 of the documents of live chunks, in the order of the numbers.

        A document without any of the words has 0. The rarity of a word is counted over the live
        documents of this index.
        """
        if not len(numbers):
            return np.zeros(0)
        return self.words(question).documents(numbers)

    def words(self, question: str) -> QueryWords:
        """Return the words of a question, which score passages and documents by BM25."""
        if self._query_words is None or self._query_words[0] != question:
            words = self._memory.words(self.index.index_uid).at(
                self._sql, self.state.version, question
            )
            self._query_words = question, words
        return self._query_words[1]

    def terms(self, terms: SparseVector) -> QueryTerms:
        """Return the terms of a question, which score passages."""
        if self._query_terms is None or self._query_terms[0] is not terms:
            looked_up = self._memory.terms(self.index.index_uid).at(
                self._sql, self.state.version, terms
            )
            self._query_terms = terms, looked_up
        return self._query_terms[1]

    def cosines(self, vector: Vector, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosines of chunks with a vector, in the order of the numbers."""
        if not len(numbers):
            return np.zeros(0)
        vectors = np.array(self.vectors(numbers.tolist()), np.float32)
        scores: NDArray[np.float64] = cosines(vectors, direction_of(vector))
        return scores

    def vectors(self, numbers: Sequence[int]) -> list[Vector]:
        """Return the unit vectors of chunks, in the order of the numbers.

        Raises:
            StoreError: an outage, or the store has lost one of them.
        """
        vectors = self._known_vectors(numbers)
        if missing := [number for number in numbers if number not in vectors]:
            raise self._lost(len(missing))
        return [vectors[number] for number in numbers]

    def documents(self, numbers: Sequence[int]) -> list[int]:
        """Return a number for the document of each chunk, in the order of the chunks' numbers."""
        live = self._live(numbers)
        return [live[number].version for number in numbers]

    def values(self, key: str, numbers: Sequence[int]) -> list[Any]:
        """Return the value of a metadata key of each chunk; None if it has none."""
        values = self._memory.values(self.index.index_uid, self.state.version, key)
        if new := [number for number in numbers if number not in values]:
            chunks = self.without_texts(new)
            # In one step, because other threads use the same dictionary.
            values.update({n: chunks[n].metadata.get(key) if n in chunks else None for n in new})
        return [values[number] for number in numbers]

    def _filter(self, k: int, where: Mapping[str, Any] | None) -> _Filter:
        """Check `k` and the filter, and prepare the filter for the store.

        Raises:
            UsageError: the filter is malformed, or `k` is less than 1.
        """
        if k < 1:
            raise UsageError(f"top_k must be at least 1, not {k}")
        where = self._without_excluded(resolved(where) if where else {})
        if not (where or self._versions):
            return _Filter({}, {}, None, self.state.live)
        if not self.state.live:
            return _Filter(where, {}, None, 0)
        for_store = without_fields(where, SPANS) if self._store.filters else where
        if self._versions is not None:
            allowed_ids = self._masks().newest(where, self._versions, self.metadata_of)
        elif self._store.filters:
            return _Filter(where, for_store, None, None)
        else:
            allowed_ids = self._masks().allowed(where, self.metadata_of)
        return _Filter(where, for_store, allowed_ids, len(allowed_ids))

    def _without_excluded(self, where: Mapping[str, Any]) -> Mapping[str, Any]:
        """Add the condition that the document is not excluded, if any is."""
        if not self.excluded:
            return where
        others = {"uri": {"$nin": sorted(self.excluded)}}
        return {"$and": [others, where]} if "uri" in where else {**where, **others}

    def _are_all(self, candidates: SearchHits) -> bool:
        """Return whether the store cannot have more, though it returned as many as requested."""
        returned = len(set(candidates.numbers))
        if returned < self.state.entered:
            return False
        # It may have vectors unknown to the catalog, which an interrupted writer has left.
        there = self._count()
        return there is not None and returned >= there

    def _judged(
        self,
        candidates: SearchHits,
        direction: NDArray[np.float64],
        only: _Filter,
    ) -> tuple[Hits, float]:
        """Return the live chunks that pass, and the highest cosine that any other may have."""
        numbers = [int(number) for number in candidates.numbers]
        vectors = candidates.vectors
        if vectors is None:
            # Missing vectors were added or deleted in the meantime.
            by_number = self._known_vectors(numbers)
            numbers = [number for number in numbers if number in by_number]
            vectors = np.array([by_number[number] for number in numbers])
        else:
            self._vectors.update(zip(numbers, vectors, strict=True))
        # Nothing is known of the others, which may be as near as can be.
        if not numbers:
            return NO_HITS, 1.0
        scores = cosines(vectors, direction)
        return self._hits(numbers, scores, only), float(scores[-1])

    def _hits(self, numbers: Sequence[int], scores: NDArray[np.float64], only: _Filter) -> Hits:
        """Return the chunks that are live and pass a filter, each once."""
        passing = self._passing(numbers, only)
        places = {number: at for at, number in enumerate(numbers) if number in passing}
        ids = [passing[number].id for number in places]
        return Hits(np.array(list(places), np.int64), ids, scores[list(places.values())])

    def _known_vectors(self, numbers: Sequence[int]) -> Mapping[int, Any]:
        """Return the vectors of at least these numbers; missing ones are omitted."""
        if new := [number for number in numbers if number not in self._vectors]:
            if self._store.returns_vectors:
                self._vectors.update(finish(self._store.get(self._space, new)))
            else:
                self._vectors.update(self.kept_vectors(new))
        return self._vectors

    def _passing(self, numbers: Sequence[int], only: _Filter) -> Mapping[int, Member | StoredChunk]:
        """Return the chunks that are live and pass a filter, by number."""
        if only.allowed_ids is None and only.where:
            allows = compile_filter(only.where)
            chunks = self.without_texts(numbers)
            return {n: chunk for n, chunk in chunks.items() if allows(chunk.metadata)}
        return self._live(_inside(numbers, only.allowed_ids))

    def _live(self, numbers: Collection[int]) -> dict[int, Member]:
        """Return the chunks that searches find, by number. Each is looked up only once."""
        members = self._members
        if new := set(numbers).difference(members):
            live = self.members(new)
            # In one step, because other threads use the same dictionary.
            members.update({number: live.get(number) for number in new})
        return {number: member for number in numbers if (member := members[number]) is not None}

    def _filled(self, hits: Hits, vector: Vector, k: int) -> Hits:
        """Return the best `k` if all others have the score 0: those tie, and are sorted by id."""
        related = hits.at(np.flatnonzero(scores_of(hits.scores) > 0).tolist())
        related_numbers = set(related.numbers.tolist())
        first = self.first_by_id(k)
        names = {number: name for number, name in first if number not in related_numbers}
        others = np.array(list(names), np.int64)
        return Hits(
            np.concatenate([related.numbers, others]),
            [*related.ids, *names.values()],
            np.concatenate([related.scores, self.cosines(vector, others)]),
        ).best(k)

    def _best_of(
        self, look_up: Callable[[], Matches[Any, Any]], k: int, where: Mapping[str, Any] | None
    ) -> Hits:
        """Return the best chunks that have any of the terms that are looked up and pass a filter.

        Args:
            look_up: looks up the terms of the question.
            k: how many.
            where: the filter.
        """
        only = self._filter(k, where)
        if only.total == 0:
            return NO_HITS
        matches = look_up()
        limit = k
        while True:
            numbers, scores = matches.best(limit, only.allowed_ids)
            hits = self._hits(numbers.tolist(), scores, only)
            if len(hits.ids) >= k or len(numbers) < limit:
                return hits.best(k, float(hits.scores.max(initial=0.0)) or 1.0)
            limit *= _GROWTH

    def _masks(self) -> Masks:
        return self._memory.masks(self.index.index_uid, self.state.version, self.rows)

    def _check(self, vector: Vector) -> None:
        if vector.shape != (self._space.dimension,):
            size = str(vector.shape[0]) if vector.ndim == 1 else f"shape {vector.shape}"
            raise StoreError(
                f"{self._space}: searched with a vector of dimension {size}, expected "
                f"{self._space.dimension}; if the embedder of the index made it, "
                "reindex the knowledge base"
            )
        if not np.isfinite(vector).all():
            raise StoreError(f"{self._space}: searched with a vector that holds NaN or infinity")

    def _check_complete(self, passing: int, only: _Filter, *, is_exact: bool) -> None:
        """Raise if the store has fewer vectors than expected."""
        expected = self.state.live if only.total is None else only.total
        if passing >= expected or (only.total is None and passing):
            return
        if only.total is None or not is_exact:
            there = self._count()
            if there is not None and there >= self.state.entered:
                return
            # The missing vectors may be those that a writer is adding or deleting.
            if (there is None or there >= self.state.live) and not self._lacks_some():
                return
        raise self._lost(expected - passing)

    def _count(self) -> int | None:
        """Return the number of vectors in the store, or None if counting takes long."""
        return finish(self._store.count(self._space)) if self._store.counts_fast else None

    def _lacks_some(self) -> bool:
        """Return whether one of a few vectors is missing, for when a count does not tell."""
        some = self.first_by_id(_SAMPLE)
        try:
            there = finish(self._store.get(self._space, [number for number, _ in some]))
        except NotImplementedError:  # the store cannot look up vectors either
            return False
        return len(there) < len(some)

    def _lost(self, count: int) -> LostVectorsError:
        owner = self.index.key.namespace
        is_collection = owner.scope == COLLECTION_SCOPE
        suggestions = [] if is_collection else [owner.command("ingest")]
        repairs = [f"restore them with: {command}" for command in suggestions]
        return LostVectorsError(
            f"{self._store} has lost {count} of the {self.state.live} vectors of {self._space}; "
            f"{repairs[0] if repairs else 'delete its documents and add them again'}",
            suggestions=suggestions,
        )


def _inside(numbers: Sequence[int], allowed_ids: NDArray[np.int64] | None) -> Sequence[int]:
    """Return the numbers that are in `allowed_ids`, ascending and not empty; None means all."""
    if allowed_ids is None:
        return numbers
    there = _are_inside(np.asarray(numbers), allowed_ids).tolist()
    return [number for number, inside in zip(numbers, there, strict=True) if inside]


def _are_inside(numbers: NDArray[np.int64], allowed_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    there: NDArray[np.bool_] = (
        allowed_ids.take(np.searchsorted(allowed_ids, numbers), mode="clip") == numbers
    )
    return there
