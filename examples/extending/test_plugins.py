"""The plugins pass the tests that Lorebind's own embedders and vector stores pass."""

import pytest
from acme_lore import AcmeEmbedder
from duckdb_store import DuckDBStore

from lorebind_knowledge.testing import (
    EmbedderConformance,
    IndexConformance,
    VectorStoreConformance,
)


class TestEmbedder(EmbedderConformance):
    @pytest.fixture
    def make_embedder(self):
        return lambda: AcmeEmbedder(256, "a key")

    @pytest.fixture
    def secrets(self):
        return ["a key"]


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
