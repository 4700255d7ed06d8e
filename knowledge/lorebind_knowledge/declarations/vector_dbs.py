"""`vector_dbs:` where vectors are kept, each database with a catalog beside it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.places import Place

Metric: TypeAlias = Literal["cosine", "l2", "ip"]
"""What an approximate index orders by; scores are the cosine whatever it is."""

DIMENSION = "The length of the vectors. An embedder whose vectors have another one is refused."
CATALOG = "Where its catalog is kept. By default in the SQLite file `.lorebind/<id>.catalog.db`."


class EmbeddingCacheConfig(Declaration):
    """The vectors of all texts that were embedded, so that no text is embedded twice."""

    max_bytes: int = Field(
        10_000_000_000,
        ge=0,
        description=(
            "The most bytes that these vectors may take. At the end of an ingest, those that were "
            "used least recently are removed until the others fit."
        ),
    )


class VectorDBBase(Declaration):
    """What all vector databases declare, those of plugins too."""

    label: ClassVar[str] = "vector database"
    kind_key: ClassVar[str] = "type"

    id: Id = Field(description="The name by which knowledge bases refer to the database.")
    embedding_cache: EmbeddingCacheConfig = Field(
        default_factory=EmbeddingCacheConfig,
        description="Settings of the embedding cache, which is part of the catalog.",
    )

    @property
    def is_existing(self) -> bool:
        """Whether others fill it, so that it is searched as it stands and never written."""
        return False


VectorDBDeclaration: TypeAlias = Annotated[
    VectorDBBase,
    Place(
        "vector_dbs",
        VectorDBBase,
        {
            "memory": "lorebind_knowledge.stores.memory",
            "sqlite": "lorebind_knowledge.stores.sqlite",
            "pgvector": "lorebind_knowledge.stores.pgvector.declaration",
            "qdrant": "lorebind_knowledge.stores.qdrant.declaration",
            "langchain": "lorebind_knowledge.stores.langchain.declaration",
        },
    ),
]
"""One of the vector databases, chosen by `type`: one of these or a plugin's."""
