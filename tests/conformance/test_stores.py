"""The built-in stores pass the conformance kit that ships for everybody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lorebind_knowledge.stores import MemoryStore, SqliteStore
from lorebind_knowledge.testing import (
    BulkStoreConformance,
    FetchStoreConformance,
    LexicalStoreConformance,
    VectorStoreConformance,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class TestMemoryStore(VectorStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestMemoryStoreLexical(LexicalStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestMemoryStoreFetch(FetchStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqliteStore(VectorStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "made" / "later" / "store.db")
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path: Path) -> Callable[[], SqliteStore]:
        return lambda: SqliteStore(tmp_path / "made" / "later" / "store.db")


class TestSqliteStoreLexical(LexicalStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store.db")
        yield store
        store.close()


class TestSqliteStoreFetch(FetchStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store.db")
        yield store
        store.close()


class TestMemoryStoreBulk(BulkStoreConformance):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSqliteStoreBulk(BulkStoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store.db")
        yield store
        store.close()
