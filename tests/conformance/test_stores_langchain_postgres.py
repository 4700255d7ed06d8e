"""LangChain's own PostgreSQL store, wrapped, passes the conformance kit on a real server."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from langchain_postgres import Column, PGEngine, PGVectorStore
from sqlalchemy.exc import ProgrammingError

from lorebind_knowledge.stores.langchain.store import LangChainStore
from lorebind_knowledge.stores.langchain.wrapped import Recipe
from lorebind_knowledge.testing import FetchStoreConformance, VectorStoreConformance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from langchain_core.embeddings import Embeddings


def postgres_store(embedding: Embeddings, engine: PGEngine) -> PGVectorStore:
    """A table for each dimension."""
    dimension = len(embedding.embed_query("probe"))
    table = f"chunks_{dimension}"
    id_column = Column("langchain_id", "TEXT", nullable=False)
    with suppress(ProgrammingError):  # it is there already
        engine.init_vectorstore_table(table, dimension, id_column=id_column)
    return PGVectorStore.create_sync(engine, embedding, table)


@pytest.mark.enable_socket
class OnPostgres:
    @pytest.fixture
    def engine(self, dsn: str) -> Iterator[PGEngine]:
        engine = PGEngine.from_connection_string(dsn.replace("postgresql:", "postgresql+psycopg:"))
        yield engine
        engine._run_as_sync(engine.close())

    @pytest.fixture
    def reopen(self, engine: PGEngine, tmp_path: Path) -> Callable[[], LangChainStore]:
        recipe = Recipe("PGVectorStore", postgres_store, {"engine": engine})
        return lambda: LangChainStore(recipe, tmp_path / "sidecar.db")

    @pytest.fixture
    def store(self, reopen: Callable[[], LangChainStore]) -> Iterator[LangChainStore]:
        store = reopen()
        yield store
        store.close()


class TestPGVectorStore(OnPostgres, VectorStoreConformance):
    keeps_nul = False


class TestPGVectorStoreFetch(OnPostgres, FetchStoreConformance):
    pass
