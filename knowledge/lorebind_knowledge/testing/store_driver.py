"""How the conformance tests speak to a store of either colour: short verbs over `bridge.call`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from lorebind_knowledge.bridge import call
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Record, RecordFilter, SearchOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from lorebind_knowledge.records import DocumentMatch, StoredRecord, Vector
    from lorebind_knowledge.stores.base import FetchStore, LexicalStore, VectorStore

INDEX = IndexKey(Namespace("acme", "support", "project", "handbook"))
DIMENSION = 4
EAST = (1.0, 0.0, 0.0, 0.0)
NORTH = (0.0, 1.0, 0.0, 0.0)


def vector(values: Iterable[float]) -> Vector:
    return np.array(list(values), dtype=np.float32)


def record(
    id: str,  # noqa: A002 - the field's own name
    values: Iterable[float] = EAST,
    *,
    uri: str = "a.md",
    generation: int = 1,
    index: IndexKey = INDEX,
    text: str | None = None,
    **metadata: Any,
) -> Record:
    """A record whose text is its id, unless another is given."""
    content = id if text is None else text
    return Record(id, index, uri, generation, content, vector(values), metadata)


def ids(matches: Iterable[DocumentMatch]) -> list[str]:
    return [match.id for match in matches]


class Driver:
    """A store, spoken to in the defaults of these tests: one index, one document."""

    def __init__(self, store: VectorStore) -> None:
        self.store = store

    async def open(self, index: IndexKey = INDEX, dimension: int = DIMENSION) -> None:
        await call(self.store.open, index, dimension)

    async def upsert(self, *records: Record) -> None:
        await call(self.store.upsert, list(records))

    async def publish(
        self, uri: str = "a.md", generation: int = 1, index: IndexKey = INDEX
    ) -> None:
        await call(self.store.publish, index, uri, generation)

    async def add(self, *records: Record) -> None:
        """Upsert records and publish the generations they are of."""
        await self.upsert(*records)
        for index, uri, generation in {(r.index, r.uri, r.generation): None for r in records}:
            await self.publish(uri, generation, index)

    async def search(
        self,
        values: Iterable[float] = EAST,
        top_k: int = 100,
        min_score: float | None = None,
        where: Mapping[str, Any] | None = None,
        index: IndexKey = INDEX,
        among: Collection[str] | None = None,
    ) -> list[DocumentMatch]:
        options = SearchOptions(index, top_k, min_score, where or {}, among)
        return await call(self.store.similarity_search, vector(values), options)

    async def found(self, index: IndexKey = INDEX, **options: Any) -> list[str]:
        """The ids that a search finds, best first."""
        return ids(await self.search(index=index, **options))

    async def lexical(
        self,
        query: str,
        top_k: int = 100,
        min_score: float | None = None,
        where: Mapping[str, Any] | None = None,
        index: IndexKey = INDEX,
        among: Collection[str] | None = None,
    ) -> list[DocumentMatch]:
        store = cast("LexicalStore", self.store)
        options = SearchOptions(index, top_k, min_score, where or {}, among)
        return await call(store.lexical_search, query, options)

    async def fetch(self, *names: str, index: IndexKey = INDEX) -> dict[str, StoredRecord]:
        store = cast("FetchStore", self.store)
        return await call(store.fetch, index, list(names))

    async def delete(self, index: IndexKey = INDEX, **conditions: Any) -> int:
        return await call(self.store.delete_by_filter, RecordFilter(index, **conditions))

    async def count(self, index: IndexKey = INDEX) -> int:
        return await call(self.store.count, index)

    async def drop(self, index: IndexKey = INDEX) -> None:
        await call(self.store.drop, index)

    async def close(self) -> None:
        await call(self.store.close)


def ramp(count: int) -> Sequence[tuple[float, ...]]:
    """Vectors ever further from EAST, no two at the same angle."""
    return [(1.0, step / count, 0.0, 0.0) for step in range(count)]


class StoreConformance:
    """What all chapters of the kit are given: a store, for tests that are coroutines."""

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def store(self) -> VectorStore:
        raise NotImplementedError("give a fixture named `store` that returns an empty store")
