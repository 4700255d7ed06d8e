"""`vector_dbs:` the databases for vectors, each with a catalog next to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_config.declarations.base import Declaration, Id
from lorebind_config.declarations.places import Place

if TYPE_CHECKING:
    from lorebind_config.declarations.catalogs import CatalogDeclaration

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
    def catalog_place(self) -> CatalogDeclaration | None:
        """The declared catalog: in the database itself, or beside it; None means the default."""
        return getattr(self, "own_catalog", None) or getattr(self, "catalog", None)


VectorDBDeclaration: TypeAlias = Annotated[
    VectorDBBase,
    Place("vector_dbs", VectorDBBase),
]
"""A vector database, selected by `type`: built in or from a plugin."""
