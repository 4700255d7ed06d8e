"""LangChain's own PostgreSQL store, made by a factory, passes the kit on a real server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_postgres import PGEngine, PGVectorStore
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ProgrammingError

from lorebind_config.errors import StoreError
from lorebind_config.templates import Environment
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.langchain.declaration import LangChainVectorDB, recipe_of
from lorebind_knowledge.stores.langchain.store import LangChainStore
from tests.knowledge.test_store_langchain import EAST, INDEX, NORTH, nearest, row
from tests.postgres import PASSWORD

from .reopened import Reopened

ENGINE = {
    "factory": "langchain_postgres:PGEngine.from_connection_string",
    "config": {"url": "{{ .env.URL }}"},
}


def table_per_dimension(embedding: Embeddings, engine: PGEngine, schema: str) -> PGVectorStore:
    dimension = len(embedding.embed_query("probe"))
    table = f"chunks_{dimension}"
    with suppress(ProgrammingError):  # the table already exists
        engine.init_vectorstore_table(table, dimension, schema_name=schema)
    return PGVectorStore.create_sync(engine, embedding, table, schema_name=schema)


@pytest.fixture
def make(dsn: str, tmp_path: Path) -> Callable[..., LangChainStore]:
    """Return a function that makes declared stores in one schema."""
    url = make_url(dsn.replace("postgresql:", "postgresql+psycopg:"))
    schema = str(url.query["options"]).removeprefix("-csearch_path=").partition(",")[0]
    environment = Environment(tmp_path, {"URL": url.render_as_string(hide_password=False)})

    def build(factory: str, config: dict[str, Any]) -> LangChainStore:
        data = {"id": "pg", "type": "langchain", "factory": factory}
        settings = {name: schema if value == "SCHEMA" else value for name, value in config.items()}
        declaration = LangChainVectorDB.model_validate(data | {"config": settings})
        return LangChainStore(recipe_of(declaration, environment))

    return build


@pytest.mark.enable_socket
class TestPGVectorStore(Reopened):
    keeps_nul = False
    many = 1100  # fewer, because each is slow; a search still asks for more than 1000

    @pytest.fixture
    def reopen(self, make: Callable[..., LangChainStore]) -> Callable[[], LangChainStore]:
        config = {"engine": ENGINE, "schema": "SCHEMA"}
        return lambda: make(f"{__name__}:table_per_dimension", config)


@pytest.mark.enable_socket
def test_a_class_method_makes_it(make: Callable[..., LangChainStore]) -> None:
    """A class method makes a store of one dimension, which refuses others without secrets."""
    first = make(f"{__name__}:table_per_dimension", {"engine": ENGINE, "schema": "SCHEMA"})
    space = Partition(INDEX, 5, 4)
    first.add(space, [row(1), row(2, NORTH)])
    first.close()
    config = {"engine": ENGINE, "schema_name": "SCHEMA", "table_name": "chunks_4"}
    store = make("langchain_postgres:PGVectorStore.create_sync", config)
    assert nearest(store, space=space) == [1, 2]
    assert nearest(store, space=space, at=NORTH) == [2, 1]
    other = Partition(INDEX, 6, 2)
    with pytest.raises(StoreError, match=r"create_sync cannot add documents: .*") as caught:
        store.add(other, [StoredVector(1, row(1, EAST[:2]).vector, "text", {})])
    assert PASSWORD not in str(caught.value)
    store.close()
    missing = make("langchain_postgres:PGVectorStore.create_sync", config | {"table_name": "none"})
    with pytest.raises(StoreError, match="create_sync cannot be created from this configuration"):
        missing.add(space, [row(3)])
    missing.close()
