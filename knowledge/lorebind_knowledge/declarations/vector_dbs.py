"""`vector_dbs:` where chunks and their vectors are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.catalogs import (
    CatalogDeclaration,
    refuse_catalog_in_memory,
)
from lorebind_knowledge.declarations.plugging import Open
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.values import (
    OUTSIDE,
    ClassPath,
    ConfigMap,
    SqlName,
    leaves_project,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.base import Wants

Metric: TypeAlias = Literal["cosine", "l2", "ip"]
"""What an approximate index orders by; scores are the cosine whatever it is."""

_CATALOG = "Where its catalog is kept; left out, in a SQLite file of the project."
_CATALOG_ALONE = _CATALOG + " Its documents' ids are in another such file, wherever the catalog is."


class EmbeddingCacheConfig(Declaration):
    """Vectors of texts that were embedded once: no ingest pays for them again."""

    max_bytes: int = Field(
        10_000_000_000,
        ge=0,
        description=(
            "Room for the vectors; where they take more, those used least recently go at the end "
            "of an ingest."
        ),
    )


class VectorDBBase(Declaration):
    """What all vector databases declare, those of plugins too."""

    label: ClassVar[str] = "vector database"
    kind_key: ClassVar[str] = "type"

    id: Id = Field(description="The name by which knowledge bases refer to the database.")
    embedding_cache: EmbeddingCacheConfig = Field(
        default_factory=EmbeddingCacheConfig,
        description="What is kept of the work of embedders, beside the chunks.",
    )


class MemoryVectorDBConfig(Declaration):
    """The memory store has no settings."""


class MemoryVectorDB(VectorDBBase):
    """Vectors in memory, gone when the process ends."""

    type: Literal["memory"] = Field(description="Kept in memory.")
    config: MemoryVectorDBConfig = Field(
        default_factory=MemoryVectorDBConfig, description="Nothing to set."
    )


class SqliteVectorDBConfig(Declaration):
    """Settings of the SQLite store."""

    templated: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(
        ".lorebind/lorebind.db",
        min_length=1,
        description="The database file, relative to the project folder.",
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if leaves_project(self.path):
            yield "path", "write", OUTSIDE


class SqliteVectorDB(VectorDBBase):
    """Vectors in one SQLite file: the default."""

    type: Literal["sqlite"] = Field(description="Kept in a SQLite file.")
    config: SqliteVectorDBConfig = Field(
        default_factory=SqliteVectorDBConfig, description="Which file."
    )


class AnnIndexConfig(Declaration):
    """An approximate nearest neighbour index of pgvector."""

    type: Literal["hnsw", "ivfflat"] = Field("hnsw", description="The kind of the index.")
    name: SqlName | None = Field(None, description="Its name; left out, made from the table's.")
    m: int = Field(16, ge=2, le=100, description="hnsw: links of each vector.")
    ef_construction: int = Field(
        128, ge=4, le=1000, description="hnsw: candidates while the index is built."
    )
    ef_search: int = Field(
        200,
        ge=1,
        le=1000,
        description="hnsw: candidates of a search; more find more of the nearest, more slowly.",
    )
    lists: int | None = Field(
        None, ge=1, le=32768, description="ivfflat: lists; left out, fitted to the rows."
    )
    probes: int | None = Field(
        None, ge=1, le=32768, description="ivfflat: lists that a search reads; left out, √lists."
    )


class PoolConfig(Declaration):
    """Connections to a database that are kept open."""

    min_size: int = Field(0, ge=0, le=1000, description="Connections kept when idle.")
    max_size: int = Field(8, ge=1, le=1000, description="The most connections at a time.")
    timeout_seconds: float = Field(
        30, gt=0, le=600, description="How long a call waits for a connection."
    )

    @model_validator(mode="after")
    def _min_fits(self) -> PoolConfig:
        if self.min_size > self.max_size:
            hint = f"expected at most max_size, {self.max_size}"
            raise RefusedError([Fault(f"min_size is {self.min_size}", hint, ("min_size",))])
        return self


class PgvectorConfig(Declaration):
    """Settings of the PostgreSQL store."""

    templated: ClassVar[tuple[str, ...]] = ("dsn",)

    dsn: Secret = Field(description="How to connect: postgresql://user:password@host/database.")
    table: SqlName = Field("knowledge_chunks", description="The table of the chunks.")
    ensure_schema: bool = Field(
        True, description="Make extension and table when they are not there."
    )
    ensure_index: bool = Field(
        False, description="Keep an approximate index; without one, searches are exact."
    )
    index: AnnIndexConfig = Field(
        default_factory=AnnIndexConfig, description="The approximate index."
    )
    metric: Metric = Field("cosine", description="What the approximate index orders by.")
    dimension: int | None = Field(
        None, ge=1, le=16000, description="Length of the vectors, to be checked at load."
    )
    pool: PoolConfig = Field(default_factory=PoolConfig, description="Connections kept open.")


class PgvectorVectorDB(VectorDBBase):
    """Vectors in PostgreSQL with the extension pgvector."""

    type: Literal["pgvector"] = Field(description="Kept in PostgreSQL.")
    config: PgvectorConfig = Field(description="Which database, and how.")


class QdrantAuth(Declaration):
    """How a Qdrant server is let know who asks."""

    templated: ClassVar[tuple[str, ...]] = ("api_key",)

    api_key: Secret | None = Field(None, description="Sent with every request.")


class QdrantConfig(Declaration):
    """Settings of the Qdrant store: a server's `url`, or a `path` on this machine."""

    templated: ClassVar[tuple[str, ...]] = ("url", "path")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_place`
            "oneOf": [
                {"anyOf": [{"required": ["url"]}, {"required": ["dsn"]}]},
                {"required": ["path"]},
            ]
        }
    )

    url: str | None = Field(
        None,
        min_length=1,
        validation_alias=AliasChoices("url", "dsn"),
        description="The server, as http://host:6333.",
    )
    path: str | None = Field(
        None,
        min_length=1,
        description=(
            "A folder for qdrant-client's local mode, for small data and one process; "
            "':memory:' keeps nothing."
        ),
    )
    collection: Id | None = Field(None, description="Left out, the id of the vector database.")
    auth: QdrantAuth = Field(default_factory=QdrantAuth, description="Credentials.")
    metric: Metric = Field("cosine", description="What the collection orders by.")
    exact: bool = Field(
        True, description="Compare with every vector; false asks the approximate index (HNSW)."
    )
    consistency: Literal["majority", "quorum", "all"] | None = Field(
        None, description="How many replicas must agree on a read; left out, one."
    )
    dimension: int | None = Field(
        None, ge=1, le=65535, description="Length of the vectors, to be checked at load."
    )
    timeout_seconds: float = Field(10, gt=0, le=600, description="How long a request may take.")

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        if self.url is not None:
            yield "url", "reach", "a server of Qdrant"
        elif self.path is not None and leaves_project(self.path):
            yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _one_place(self) -> QdrantConfig:
        if (self.url is None) == (self.path is None):
            raise RefusedError(
                [Fault("the config names no place", "write either 'url' or 'path'")]
                if self.url is None
                else [Fault("url and path are both given", "keep one of them", ("path",))]
            )
        return self


class QdrantVectorDB(VectorDBBase):
    """Vectors in Qdrant."""

    type: Literal["qdrant"] = Field(description="Kept in Qdrant.")
    config: QdrantConfig = Field(description="Which server and collection.")
    catalog: CatalogDeclaration | None = Field(None, description=_CATALOG)

    @model_validator(mode="after")
    def _catalog_lasts_as_long(self) -> QdrantVectorDB:
        if self.config.path == ":memory:":
            refuse_catalog_in_memory(self.catalog)
        return self


class LangChainVectorDB(VectorDBBase):
    """Any `VectorStore` class of LangChain."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    type: Literal["langchain"] = Field(description="A VectorStore class of LangChain.")
    class_path: ClassPath = Field(
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    config: ConfigMap = Field(default_factory=dict, description="Arguments of the class, by name.")
    persistent: bool | None = Field(
        None,
        description=(
            "Whether the class keeps its data beyond the process; "
            "left out, all but InMemoryVectorStore do."
        ),
    )
    catalog: CatalogDeclaration | None = Field(None, description=_CATALOG_ALONE)

    @model_validator(mode="after")
    def _catalog_lasts_as_long(self) -> LangChainVectorDB:
        if self.persistent is False:
            refuse_catalog_in_memory(self.catalog)
        return self


_BuiltIn: TypeAlias = (
    MemoryVectorDB | SqliteVectorDB | PgvectorVectorDB | QdrantVectorDB | LangChainVectorDB
)
VectorDBDeclaration: TypeAlias = Annotated[
    _BuiltIn, Field(discriminator="type"), Open("vector_dbs", VectorDBBase, _BuiltIn)
]
"""One of the vector databases, chosen by `type`: one of these or a plugin's."""
