"""The PostgreSQL store passes the conformance kit, on a real server."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lorebind_knowledge.stores.pgvector import store
from lorebind_knowledge.stores.pgvector.settings import AnnIndexConfig, PgvectorSettings
from lorebind_knowledge.stores.pgvector.store import PgvectorStore

from .reopened import Reopened

FORCED = "%20-c%20enable_seqscan%3Doff%20-c%20enable_bitmapscan%3Doff%20-c%20enable_sort%3Doff"
"""Settings that make the planner use the approximate index for any number of rows."""


class TestPgvectorStore(Reopened):
    @pytest.fixture
    def reopen(self, dsn: str) -> Callable[[], PgvectorStore]:
        return lambda: PgvectorStore(dsn)


class TestPgvectorStoreWithAnIndex(TestPgvectorStore):
    """Every space gets approximate indexes in the background of its searches."""

    @pytest.fixture(autouse=True)
    def look_always(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store, "_SECONDS_BETWEEN_LOOKS", 0)

    @pytest.fixture
    def reopen(self, dsn: str) -> Callable[[], PgvectorStore]:
        settings = PgvectorSettings(ensure_index=True, index=AnnIndexConfig(ef_search=1000))
        return lambda: PgvectorStore(dsn + FORCED, settings, ann_from=1, ann_more_from=5)
