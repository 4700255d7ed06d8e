"""`pgvector`: vectors and catalog in one PostgreSQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.values import Secret
from lorebind_config.declarations.vector_dbs import CatalogDeclaration, VectorDBBase
from lorebind_knowledge.stores.pgvector.settings import PgvectorSettings

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.stores.base import VectorStore


class PgvectorConfig(PgvectorSettings):
    """Settings of the PostgreSQL store."""

    templated: ClassVar[tuple[str, ...]] = ("dsn",)

    dsn: Secret = Field(description="The database: postgresql://user:password@host/database.")


class PgvectorVectorDB(VectorDBBase):
    """Vectors and catalog in PostgreSQL with the pgvector extension."""

    type: Literal["pgvector"] = Field(description="Store everything in PostgreSQL.")
    config: PgvectorConfig = Field(description="The database and its settings.")

    @property
    def own_catalog(self) -> CatalogDeclaration:
        """The catalog in the same database."""
        return CatalogDeclaration(dsn=self.config.dsn, ensure_schema=self.config.ensure_schema)


Declaration = PgvectorVectorDB


def make(declaration: PgvectorVectorDB, environment: PartEnvironment) -> VectorStore:
    from lorebind_knowledge.stores.pgvector.store import PgvectorStore

    config = declaration.config
    return PgvectorStore(environment.fill(config.dsn), config)
