"""`vector_dbs:` where vectors are kept, each database with a catalog beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.catalogs import (
    CatalogDeclaration,
    refuse_catalog_in_memory,
)
from lorebind_knowledge.declarations.parts import PartsMap
from lorebind_knowledge.declarations.plugging import Open
from lorebind_knowledge.declarations.secrets import Secret
from lorebind_knowledge.declarations.values import (
    OUTSIDE,
    ClassPath,
    FactoryPath,
    SqlName,
    leaves_project,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.declarations.base import Wants

Metric: TypeAlias = Literal["cosine", "l2", "ip"]
"""What an approximate index orders by; scores are the cosine whatever it is."""

_DIMENSION = "The length of the vectors. An embedder whose vectors have another one is refused."
_CATALOG = "Where its catalog is kept. By default in the SQLite file `.lorebind/<id>.catalog.db`."


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


class MemoryVectorDBConfig(Declaration):
    """The memory store has no settings."""


class MemoryVectorDB(VectorDBBase):
    """Vectors and catalog in memory. They are gone when the process ends."""

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
    """Vectors and catalog in one SQLite file. This is the default."""

    type: Literal["sqlite"] = Field(description="Kept in a SQLite file.")
    config: SqliteVectorDBConfig = Field(
        default_factory=SqliteVectorDBConfig, description="Which file."
    )


class AnnIndexConfig(Declaration):
    """An approximate nearest neighbour index of pgvector."""

    type: Literal["hnsw", "ivfflat"] = Field("hnsw", description="The kind of the index.")
    name: SqlName | None = Field(
        None, description="What its name begins with. By default the name of the table and `_ann`."
    )
    m: int = Field(16, ge=2, le=100, description="hnsw: how many links each vector has.")
    ef_construction: int = Field(
        128, ge=4, le=1000, description="hnsw: how many candidates are compared to build it."
    )
    ef_search: int = Field(
        200,
        ge=1,
        le=1000,
        description="hnsw: how many candidates a search compares. More of them find more of the "
        "nearest vectors, and take longer.",
    )
    lists: int | None = Field(
        None,
        ge=1,
        le=32768,
        description="ivfflat: the number of lists. By default it fits the number of rows.",
    )
    probes: int | None = Field(
        None,
        ge=1,
        le=32768,
        description="ivfflat: how many lists a search reads. By default the square root of lists.",
    )


class PoolConfig(Declaration):
    """Connections to a database that are kept open."""

    min_size: int = Field(
        0, ge=0, le=1000, description="How many connections stay open when nothing is asked."
    )
    max_size: int = Field(8, ge=1, le=1000, description="The most connections at a time.")
    timeout_seconds: float = Field(
        30, gt=0, le=600, description="How long a call waits for a free connection."
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
    table: SqlName = Field(
        "knowledge_chunks",
        description="What the name of its table begins with; `_vectors` follows.",
    )
    ensure_schema: bool = Field(
        True,
        description="Make the extension and the tables if they are missing. If this is false, an "
        "error shows the statements that make them.",
    )
    ensure_index: bool = Field(
        False,
        description="Keep an approximate index of each knowledge base that has 10,000 passages or "
        "more. Without it, searches are exact.",
    )
    index: AnnIndexConfig = Field(
        default_factory=AnnIndexConfig, description="The approximate index."
    )
    metric: Metric = Field(
        "cosine",
        description="The distance that the approximate index compares. Scores are always cosines.",
    )
    dimension: int | None = Field(None, ge=1, le=16000, description=_DIMENSION)
    pool: PoolConfig = Field(default_factory=PoolConfig, description="Connections kept open.")


class PgvectorVectorDB(VectorDBBase):
    """Vectors and catalog in PostgreSQL with the extension pgvector."""

    type: Literal["pgvector"] = Field(description="Kept in PostgreSQL.")
    config: PgvectorConfig = Field(description="Which database, and how.")


class QdrantAuth(Declaration):
    """Credentials for a Qdrant server."""

    templated: ClassVar[tuple[str, ...]] = ("api_key",)

    api_key: Secret | None = Field(None, description="Sent with every request.")


class QdrantConfig(Declaration):
    """Settings of the Qdrant store: either the `url` of a server, or a `path` on this machine."""

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
            "A folder for qdrant-client's local mode, which is for small data and one process. "
            "':memory:' keeps everything in memory."
        ),
    )
    collection: Id | None = Field(
        None,
        description="What the names of its collections begin with; the dimension follows. By "
        "default the id of the vector database.",
    )
    auth: QdrantAuth = Field(default_factory=QdrantAuth, description="Credentials.")
    metric: Metric = Field(
        "cosine", description="The distance of its collections. Scores are always cosines."
    )
    exact: bool = Field(
        True,
        description="Compare with every vector. If this is false, a search uses the approximate "
        "index of Qdrant (HNSW).",
    )
    consistency: Literal["majority", "quorum", "all"] | None = Field(
        None, description="How many replicas must agree on a read. By default one."
    )
    dimension: int | None = Field(None, ge=1, le=65535, description=_DIMENSION)
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
    """Any `VectorStore` of LangChain, named by its `class` or by the `factory` that makes it."""

    templated: ClassVar[tuple[str, ...]] = ("config",)

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_one_maker`
            "oneOf": [
                {"required": [key], "properties": {key: {"type": "string"}}}
                for key in ("class", "factory")
            ]
        }
    )

    type: Literal["langchain"] = Field(description="A VectorStore of LangChain.")
    class_path: ClassPath | None = Field(
        None,
        alias="class",
        description="The class, as 'package.module:Class', in the project folder or installed.",
    )
    factory: FactoryPath | None = Field(
        None,
        description=(
            "A function or class method that makes the VectorStore, as "
            "'package.module:function' or 'package.module:Class.method'. It needs a parameter for "
            "the embedder."
        ),
    )
    config: PartsMap = Field(
        default_factory=dict,
        description=(
            "Arguments of the class or factory, by name. An argument that is an object, such as an "
            "engine, is written as '{ factory: …, config: {…} }' or '{ class: …, config: {…} }'."
        ),
    )
    persistent: bool | None = Field(
        None,
        description=(
            "Whether the data stay when the process ends. By default true, except for "
            "InMemoryVectorStore."
        ),
    )
    catalog: CatalogDeclaration | None = Field(None, description=_CATALOG)

    @model_validator(mode="after")
    def _one_maker(self) -> LangChainVectorDB:
        if (self.class_path is None) == (self.factory is None):
            raise RefusedError(
                [Fault("nothing says what makes it", "write either 'class' or 'factory'")]
                if self.factory is None
                else [Fault("class and factory are both given", "keep one of them", ("factory",))]
            )
        return self

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
