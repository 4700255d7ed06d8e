"""From a declared vector database to its store, and the catalog that lives beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.data_folder import DATA_FOLDER
from lorebind_knowledge.declarations.vector_dbs import (
    LangChainVectorDB,
    MemoryVectorDB,
    PgvectorVectorDB,
    QdrantVectorDB,
    SqliteVectorDB,
)
from lorebind_knowledge.optional import import_object

if TYPE_CHECKING:
    from pathlib import Path

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations import VectorDBDeclaration
    from lorebind_knowledge.stores.base import VectorStore

IN_MEMORY = ":memory:"


def make_store(
    declaration: VectorDBDeclaration, environment: Environment
) -> tuple[VectorStore, Catalog]:
    """A store and its catalog. Nothing is opened or written until it is used.

    The catalog says what the store holds, so the two share one fate: one file, or memory.
    """
    match declaration:
        case MemoryVectorDB():
            from lorebind_knowledge.stores.memory.store import MemoryStore

            return MemoryStore(), Catalog()
        case SqliteVectorDB(config=config):
            from lorebind_knowledge.stores.sqlite.store import SqliteStore

            path = environment.root / environment.resolve(config.path)
            return SqliteStore(path), Catalog(path)
        case PgvectorVectorDB():
            return _pgvector(declaration, environment)
        case QdrantVectorDB():
            return _qdrant(declaration, environment)
        case LangChainVectorDB():
            return _langchain(declaration, environment)


def _pgvector(
    declaration: PgvectorVectorDB, environment: Environment
) -> tuple[VectorStore, Catalog]:
    from lorebind_knowledge.catalog.postgres import PostgresAddress
    from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

    config = declaration.config
    address = PostgresAddress(environment.resolve(config.dsn))
    store = PgvectorStore(
        address,
        table=config.table,
        ensure_schema=config.ensure_schema,
        ensure_index=config.ensure_index,
        index=config.index,
        metric=config.metric,
        dimension=config.dimension,
        pool=config.pool,
    )
    return store, Catalog(postgres=PostgresDatabase(address, ensure_schema=config.ensure_schema))


def _qdrant(declaration: QdrantVectorDB, environment: Environment) -> tuple[VectorStore, Catalog]:
    from lorebind_knowledge.stores.qdrant.store import QdrantStore

    config = declaration.config
    path = environment.resolve(config.path)
    store = QdrantStore(
        config.collection or declaration.id,
        url=environment.resolve(config.url),
        path=None if path in (None, IN_MEMORY) else environment.root / path,
        api_key=environment.resolve(config.auth.api_key),
        timeout_seconds=config.timeout_seconds,
        consistency=config.consistency,
        metric=config.metric,
        exact=config.exact,
    )
    return store, Catalog(None if path == IN_MEMORY else _beside(declaration, environment))


def _langchain(
    declaration: LangChainVectorDB, environment: Environment
) -> tuple[VectorStore, Catalog]:
    from langchain_core.vectorstores import InMemoryVectorStore

    from lorebind_knowledge.stores.langchain.store import LangChainStore
    from lorebind_knowledge.stores.langchain.wrapped import Recipe

    make = import_object(declaration.class_path)
    persistent = declaration.persistent
    if persistent is None:
        persistent = not (isinstance(make, type) and issubclass(make, InMemoryVectorStore))
    written = dict(declaration.config)
    recipe = Recipe(declaration.class_path, make, environment.resolve(written), written)
    if not persistent:
        return LangChainStore(recipe, None), Catalog()
    file = _beside(declaration, environment)
    sidecar = file.with_name(f"{declaration.id}.langchain.db")
    return LangChainStore(recipe, sidecar), Catalog(file)


def _beside(declaration: QdrantVectorDB | LangChainVectorDB, environment: Environment) -> Path:
    """The catalog's file for what is kept where no file of ours can be."""
    return environment.root / DATA_FOLDER / f"{declaration.id}.catalog.db"
