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
from lorebind_knowledge.errors import UsageError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.project_code import derives

if TYPE_CHECKING:
    from pathlib import Path

    from lorebind_knowledge.configuration import Environment
    from lorebind_knowledge.declarations import VectorDBDeclaration
    from lorebind_knowledge.declarations.vector_dbs import VectorDBBase
    from lorebind_knowledge.stores.base import VectorStore

IN_MEMORY = ":memory:"
_LONGEST_NAME = 63


def make_store(
    declaration: VectorDBDeclaration, environment: Environment
) -> tuple[VectorStore, Catalog]:
    """A store and its catalog. Nothing is opened or written until it is used.

    The two belong together. They are in one file, one database or in memory; where a database can
    hold vectors only, the catalog is in a file of the project, or where it is declared to be.
    """
    cache_bytes = declaration.embedding_cache.max_bytes
    match declaration:
        case MemoryVectorDB():
            from lorebind_knowledge.stores.memory import MemoryStore

            return MemoryStore(), Catalog(cache_bytes=cache_bytes)
        case SqliteVectorDB(config=config):
            from lorebind_knowledge.stores.sqlite import SqliteStore

            path = environment.root / environment.fill(config.path)
            return SqliteStore(path), Catalog(path, cache_bytes=cache_bytes)
        case PgvectorVectorDB():
            return _pgvector(declaration, environment)
        case QdrantVectorDB():
            return _qdrant(declaration, environment)
        case LangChainVectorDB():
            return _langchain(declaration, environment)
    from lorebind_knowledge.stores.plugged import make_plugged_store

    store, persistent = make_plugged_store(declaration, environment)
    file = _beside(declaration, environment) if persistent else None
    return store, Catalog(file, cache_bytes=cache_bytes)


def _pgvector(
    declaration: PgvectorVectorDB, environment: Environment
) -> tuple[VectorStore, Catalog]:
    from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
    from lorebind_knowledge.postgres.address import PostgresAddress
    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

    config = declaration.config
    address = PostgresAddress(environment.fill(config.dsn))
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
    database = PostgresDatabase(address, ensure_schema=config.ensure_schema)
    return store, Catalog(postgres=database, cache_bytes=declaration.embedding_cache.max_bytes)


def _qdrant(declaration: QdrantVectorDB, environment: Environment) -> tuple[VectorStore, Catalog]:
    from lorebind_knowledge.stores.qdrant.store import QdrantStore

    config = declaration.config
    path = environment.fill(config.path)
    store = QdrantStore(
        config.collection or declaration.id,
        url=environment.fill(config.url),
        address_as_written=config.url,
        path=None if path in (None, IN_MEMORY) else environment.root / path,
        api_key=environment.fill(config.auth.api_key),
        timeout_seconds=config.timeout_seconds,
        consistency=config.consistency,
        metric=config.metric,
        exact=config.exact,
    )
    return store, _catalog(declaration, environment, persistent=path != IN_MEMORY)


def _langchain(
    declaration: LangChainVectorDB, environment: Environment
) -> tuple[VectorStore, Catalog]:
    from langchain_core.vectorstores import InMemoryVectorStore

    from lorebind_knowledge.stores.langchain.recipe import recipe_of
    from lorebind_knowledge.stores.langchain.store import LangChainStore

    recipe = recipe_of(declaration, environment)
    in_memory = derives(getattr(recipe.make, "__self__", recipe.make), InMemoryVectorStore)
    persistent = not in_memory if declaration.persistent is None else declaration.persistent
    catalog = _catalog(declaration, environment, persistent=persistent)
    return LangChainStore(recipe, exact=in_memory), catalog


def _catalog(
    declaration: QdrantVectorDB | LangChainVectorDB, environment: Environment, *, persistent: bool
) -> Catalog:
    """The catalog where it is declared to be, else in the project, or in memory as the store is."""
    declared, cache_bytes = declaration.catalog, declaration.embedding_cache.max_bytes
    if declared is None:
        file = _beside(declaration, environment) if persistent else None
        return Catalog(file, cache_bytes=cache_bytes)
    if not persistent:
        raise UsageError(
            f"vector database {declaration.id!r} is kept in memory, and a catalog that is not "
            "would speak of vectors that are gone; leave 'catalog' out"
        )
    if declared.dsn is None:
        path = environment.root / environment.fill(declared.path)
        return Catalog(path, cache_bytes=cache_bytes)
    from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
    from lorebind_knowledge.postgres.address import PostgresAddress

    database = PostgresDatabase(
        PostgresAddress(environment.fill(declared.dsn)),
        ensure_schema=declared.ensure_schema,
        own_schema=declared.table_schema or _schema_of(declaration.id),
    )
    return Catalog(postgres=database, cache_bytes=cache_bytes)


def _schema_of(db_id: str) -> str:
    """PostgreSQL cuts names after 63 bytes, and two would become one."""
    name = f"lorebind_{db_id}"
    return name if len(name) <= _LONGEST_NAME else f"lorebind_{digest(db_id)[:40]}"


def _beside(declaration: VectorDBBase, environment: Environment) -> Path:
    """The catalog's file for what is kept where no file of ours can be."""
    return environment.root / DATA_FOLDER / f"{declaration.id}.catalog.db"
