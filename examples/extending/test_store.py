"""The vector database passes the tests that Lorebind's own vector databases pass."""

import pytest
from duckdb_store import DuckDBStore

from lorebind_knowledge.testing import IndexConformance, VectorStoreConformance


class InDuckDB:
    @pytest.fixture
    def store(self, tmp_path):
        store = DuckDBStore(tmp_path / "vectors.duckdb")
        yield store
        store.close()

    @pytest.fixture
    def reopen(self, tmp_path):
        return lambda: DuckDBStore(tmp_path / "vectors.duckdb")


class TestStore(InDuckDB, VectorStoreConformance):
    pass


class TestIndex(InDuckDB, IndexConformance):
    pass
