"""The stores that need no server pass the published conformance kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lorebind_config.namespace import Namespace
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.stores.memory import MemoryStore
from lorebind_knowledge.stores.sqlite import SqliteStore
from lorebind_knowledge.testing import VectorStoreConformance

from .reopened import Reopened


class TestMemoryStore(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqliteStore(Reopened):
    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], SqliteStore]:
        return lambda: SqliteStore(tmp_path / "made" / "later" / "store.db")


class TestSqliteStoreBesideACatalog(VectorStoreConformance):
    """The store's file holds a catalog too."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        catalog, store = Catalog(tmp_path / "both.db"), SqliteStore(tmp_path / "both.db")
        with catalog.lease(Namespace("default", "test", "project", "docs")):
            yield store
        store.close()
        catalog.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], SqliteStore]:
        return lambda: SqliteStore(tmp_path / "both.db")
