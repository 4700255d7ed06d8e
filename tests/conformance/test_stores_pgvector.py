"""The PostgreSQL store passes the conformance kit, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.testing import (
    BulkStoreConformance,
    FetchStoreConformance,
    LexicalStoreConformance,
    VectorStoreConformance,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _OnPostgres:
    @pytest.fixture
    def store(self, dsn: str) -> Iterator[PgvectorStore]:
        store = PgvectorStore(dsn)
        yield store
        store.close()


class TestPgvectorStore(_OnPostgres, VectorStoreConformance):
    @pytest.fixture
    def reopen(self, dsn: str) -> Callable[[], PgvectorStore]:
        return lambda: PgvectorStore(dsn)


class TestPgvectorStoreLexical(_OnPostgres, LexicalStoreConformance):
    pass


class TestPgvectorStoreFetch(_OnPostgres, FetchStoreConformance):
    pass


class TestPgvectorStoreBulk(_OnPostgres, BulkStoreConformance):
    pass
