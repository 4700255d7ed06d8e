"""An index passes its tests with every catalog and with every kind of store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from lorebind_config.filters import compile_filter
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import SearchHits, StoredVector, VectorStore
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.sqlite import SqliteStore
from lorebind_knowledge.testing import IndexConformance
from tests.conformance.index_behaviour import IndexBehaviour
from tests.knowledge.every_catalog import in_postgres
from tests.knowledge.plain_stores import PlainStore

T = TypeVar("T", Catalog, SqliteStore, PgvectorStore)


def opened(make: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Yield a function whose results are closed at the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(make()))


class ModestStore(PlainStore):
    """A store that cannot count, returns no vectors, and is approximate."""

    is_exact = False
    returns_vectors = False

    def nearest(self, *args: Any) -> SearchHits:
        return SearchHits(super().nearest(*args).numbers)

    def get(self, space: Partition, numbers: Collection[int]) -> Mapping[int, np.ndarray | None]:  # type: ignore[override]
        return dict.fromkeys(super().get(space, numbers))

    def count(self, space: Partition) -> None:  # type: ignore[override]
        return None


class FilteringStore(PlainStore):
    """A store that stores metadata and filters by it only."""

    filters = True

    def __init__(self) -> None:
        super().__init__()
        self._metadata: dict[tuple[int, int], Mapping[str, Any]] = {}

    def add(self, space: Partition, vectors: Sequence[StoredVector]) -> None:
        super().add(space, vectors)
        self._metadata.update(((space.index_uid, v.number), v.metadata) for v in vectors)

    def nearest(
        self,
        space: Partition,
        vector: np.ndarray,
        k: int,
        where: Mapping[str, Any],
        allowed_ids: Collection[int] | None,
    ) -> SearchHits:
        assert allowed_ids is None
        allows = compile_filter(where)
        hits = super().nearest(space, vector, 10**9, {}, None)
        passing = [n for n in hits.numbers if allows(self._metadata[space.index_uid, n])]
        return SearchHits(passing[:k])


class AsyncStore(PlainStore):
    """A store whose methods are coroutines."""

    async def add(self, *args: Any) -> None:  # type: ignore[override]
        super().add(*args)

    async def nearest(self, *args: Any) -> SearchHits:  # type: ignore[override]
        return super().nearest(*args)

    async def get(self, *args: Any) -> Mapping[int, np.ndarray]:  # type: ignore[override]
        return super().get(*args)

    async def delete(self, *args: Any) -> None:  # type: ignore[override]
        super().delete(*args)

    async def count(self, *args: Any) -> int:  # type: ignore[override]
        return super().count(*args)

    async def drop(self, *args: Any) -> None:  # type: ignore[override]
        super().drop(*args)

    async def close(self) -> None:  # type: ignore[override]
        super().close()


class EveryIndexTest(IndexBehaviour, IndexConformance):
    """The public conformance kit, and the tests that do not depend on the store."""


class TestMemoryStore(EveryIndexTest):
    @pytest.fixture
    def make_catalog(self) -> Iterator[Callable[[], Catalog]]:
        catalog = Catalog()
        yield lambda: catalog
        catalog.close()

    @pytest.fixture
    def store(self) -> VectorStore:
        return MemoryStore()


class TestSqliteStore(EveryIndexTest):
    """The store shares one file with its catalog, as in a project."""

    @pytest.fixture
    def make_catalog(self, tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
        yield from opened(lambda: Catalog(tmp_path / "lorebind.db"))

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
        yield from opened(lambda: SqliteStore(tmp_path / "lorebind.db"))

    @pytest.fixture
    def store(self, reopen: Callable[[], SqliteStore]) -> SqliteStore:
        return reopen()


class TestPgvectorStore(EveryIndexTest):
    """The store shares one database with its catalog."""

    @pytest.fixture
    def make_catalog(self, dsn: str) -> Iterator[Callable[[], Catalog]]:
        yield from opened(lambda: in_postgres(dsn))

    @pytest.fixture
    def reopen(self, dsn: str) -> Iterator[Callable[[], PgvectorStore]]:
        yield from opened(lambda: PgvectorStore(dsn))

    @pytest.fixture
    def store(self, reopen: Callable[[], PgvectorStore]) -> PgvectorStore:
        return reopen()


class TestModestStore(TestMemoryStore):
    @pytest.fixture
    def store(self) -> ModestStore:
        return ModestStore()


class TestFilteringStore(TestMemoryStore):
    @pytest.fixture
    def store(self) -> FilteringStore:
        return FilteringStore()


class TestAsyncStore(TestMemoryStore):
    @pytest.fixture
    def store(self) -> AsyncStore:
        return AsyncStore()
