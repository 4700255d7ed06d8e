"""`vector_dbs:` databases for vectors, each with a catalog of documents, texts and words."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator

from lorebind_config.declarations.base import (
    OUTSIDE,
    Declaration,
    Id,
    Wants,
    refused,
)
from lorebind_config.declarations.kinds import KindRegistry
from lorebind_config.declarations.values import Secret, SqlName


class CatalogDeclaration(Declaration):
    """The SQLite file or PostgreSQL database of a catalog: documents, texts, words and cached
    embeddings."""

    templated: ClassVar[tuple[str, ...]] = ("path", "dsn")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_place`
            "oneOf": [{"required": ["path"]}, {"required": ["dsn"]}],
        }
    )

    path: str | None = Field(
        None, min_length=1, description="The SQLite file, relative to the project folder."
    )
    dsn: Secret | None = Field(
        None, description="A PostgreSQL database: postgresql://user:password@host/database."
    )
    table_schema: SqlName | None = Field(
        None,
        alias="schema",
        description="dsn: the PostgreSQL schema of the catalog's tables. By default `lorebind_` "
        "followed by the id of the vector database.",
    )
    ensure_schema: bool = Field(
        True, description="dsn: whether to create the schema and the tables if they are missing."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.path is None and self.dsn is None:
            raise refused("the catalog has no location", "write either 'path' or 'dsn'")
        if self.path is not None and self.dsn is not None:
            raise refused("path and dsn are both given", "keep one of them", "dsn")
        if self.path is not None and self.table_schema is not None:
            hint = "remove it, since it applies to dsn only"
            raise refused("a SQLite file has no schemas", hint, "schema")
        return self


def refuse_catalog_in_memory(catalog: CatalogDeclaration | None) -> None:
    """Refuse a catalog of a database in memory: the catalog would outlive its vectors.

    Raises:
        RefusedError: a catalog is declared.
    """
    if catalog is not None:
        hint = "remove it; the catalog is kept in memory too"
        message = "a catalog would outlive the vectors, which are lost when the process ends"
        raise refused(message, hint, "catalog")


Metric: TypeAlias = Literal["cosine", "l2", "ip"]
"""The distance that an approximate index orders by. Scores are always cosines."""

DIMENSION = "The length of the vectors. An embedder with vectors of another length is refused."
CATALOG = "The database of the catalog. By default the SQLite file `.lorebind/<id>.catalog.db`."


class EmbeddingCacheConfig(Declaration):
    """The vectors of all texts that were embedded, stored so that no text is embedded twice."""

    max_bytes: int = Field(
        10_000_000_000,
        ge=0,
        description=(
            "Maximum size of the stored vectors in bytes. At the end of an ingest, the least "
            "recently used vectors are removed until the others fit."
        ),
    )


class VectorDBBase(Declaration):
    """The base of all vector database declarations, including those of plugins."""

    label: ClassVar[str] = "vector database"
    kind_key: ClassVar[str] = "type"

    id: Id = Field(description="The id by which knowledge bases refer to the database.")
    embedding_cache: EmbeddingCacheConfig = Field(
        default_factory=EmbeddingCacheConfig,
        description="Settings of the embedding cache, which is part of the catalog.",
    )

    @property
    def is_existing(self) -> bool:
        """Whether another program fills the database; it is then only searched, never written."""
        return False

    @property
    def is_shared(self) -> bool:
        """Whether its catalog is in PostgreSQL, so that several machines can use it."""
        place = self.catalog_place
        return not self.is_existing and place is not None and place.dsn is not None

    @property
    def catalog_place(self) -> CatalogDeclaration | None:
        """The declared catalog: in the database itself, or beside it; None means the default."""
        return getattr(self, "own_catalog", None) or getattr(self, "catalog", None)


VectorDBDeclaration: TypeAlias = Annotated[
    VectorDBBase,
    KindRegistry("vector_dbs", VectorDBBase),
]
"""A vector database, selected by `type`: built in or from a plugin."""
