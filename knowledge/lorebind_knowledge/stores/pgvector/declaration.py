"""`pgvector`: vectors and catalog in one PostgreSQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lorebind_knowledge.declarations.vector_dbs import VectorDBBase
from lorebind_knowledge.stores.pgvector.settings import PgvectorConfig

if TYPE_CHECKING:
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.configuration.make_part import PartEnvironment
    from lorebind_knowledge.stores.base import VectorStore


class PgvectorVectorDB(VectorDBBase):
    """Vectors and catalog in PostgreSQL with the extension pgvector."""

    type: Literal["pgvector"] = Field(description="Kept in PostgreSQL.")
    config: PgvectorConfig = Field(description="Which database, and how.")


Declaration = PgvectorVectorDB


def make(declaration: PgvectorVectorDB, environment: PartEnvironment) -> VectorStore:
    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

    config = declaration.config
    return PgvectorStore(
        environment.fill(config.dsn),
        table=config.table,
        ensure_schema=config.ensure_schema,
        ensure_index=config.ensure_index,
        index=config.index,
        metric=config.metric,
        dimension=config.dimension,
        pool=config.pool,
    )


def make_catalog(declaration: PgvectorVectorDB, environment: PartEnvironment) -> Catalog:
    """In the same database."""
    from lorebind_knowledge.catalog.catalog import Catalog
    from lorebind_knowledge.catalog.postgres_database import PostgresDatabase
    from lorebind_knowledge.postgres.address import PostgresAddress

    config = declaration.config
    address = PostgresAddress(environment.fill(config.dsn))
    database = PostgresDatabase(address, ensure_schema=config.ensure_schema)
    return Catalog(postgres=database, cache_bytes=declaration.embedding_cache.max_bytes)
