"""`qdrant`: vectors in Qdrant, on a server or in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from lorebind_config.declarations.base import OUTSIDE, Fault, Id, RefusedError, Settings
from lorebind_config.declarations.values import Secret
from lorebind_config.declarations.vector_dbs import (
    CATALOG,
    DIMENSION,
    CatalogDeclaration,
    Metric,
    VectorDBBase,
    refuse_catalog_in_memory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_config.declarations.base import Wants
    from lorebind_config.reading.make_part import PartEnvironment
    from lorebind_knowledge.stores.base import VectorStore

IN_MEMORY = ":memory:"


class QdrantAuth(Settings):
    """Credentials for a Qdrant server."""

    templated: ClassVar[tuple[str, ...]] = ("api_key",)

    api_key: Secret | None = Field(None, description="Sent with every request.")


class QdrantConfig(Settings):
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
        description="The URL of the server, for example http://host:6333.",
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
        description="The prefix of the names of its collections; the dimension follows. By "
        "default the id of the vector database.",
    )
    auth: QdrantAuth = Field(default_factory=QdrantAuth, description="Credentials.")
    metric: Metric = Field(
        "cosine", description="The distance that its collections use. Scores are always cosines."
    )
    exact: bool = Field(
        False,
        description="Compare the query with every vector, however many there are. By default, "
        "searches of a knowledge base with at least 10,000 passages use Qdrant's approximate "
        "index (HNSW).",
    )
    consistency: Literal["majority", "quorum", "all"] | None = Field(
        None, description="The replicas that must agree on a read. By default one is enough."
    )
    dimension: int | None = Field(None, ge=1, le=65535, description=DIMENSION)
    timeout_seconds: float = Field(10, gt=0, le=600, description="Seconds a request may take.")

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _one_place(self) -> QdrantConfig:
        if (self.url is None) == (self.path is None):
            raise RefusedError(
                [Fault("the config has neither url nor path", "write one of them")]
                if self.url is None
                else [Fault("url and path are both given", "keep one of them", ("path",))]
            )
        return self


class QdrantVectorDB(VectorDBBase):
    """Vectors in Qdrant."""

    type: Literal["qdrant"] = Field(description="Store vectors in Qdrant.")
    config: QdrantConfig = Field(description="The server or folder, and its settings.")
    catalog: CatalogDeclaration | None = Field(None, description=CATALOG)

    @model_validator(mode="after")
    def _catalog_lasts_as_long(self) -> QdrantVectorDB:
        if self.config.path == IN_MEMORY:
            refuse_catalog_in_memory(self.catalog)
        return self


Declaration = QdrantVectorDB


def make(declaration: QdrantVectorDB, environment: PartEnvironment) -> VectorStore:
    from lorebind_knowledge.stores.qdrant.connection import QdrantConnection
    from lorebind_knowledge.stores.qdrant.store import QdrantStore

    config = declaration.config
    path = environment.fill(config.path)
    connection = QdrantConnection(
        url=environment.fill(config.url),
        address_as_written=config.url,
        path=None if path in (None, IN_MEMORY) else environment.root / path,
        api_key=environment.fill(config.auth.api_key),
        timeout_seconds=config.timeout_seconds,
    )
    return QdrantStore(
        config.collection or declaration.id,
        connection,
        consistency=config.consistency,
        metric=config.metric,
        exact=config.exact,
    )
