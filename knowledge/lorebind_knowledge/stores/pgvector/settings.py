"""Settings of the PostgreSQL store, for its declaration and its constructor."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lorebind_config.declarations.base import Fault, RefusedError, Settings
from lorebind_config.declarations.values import SqlName
from lorebind_config.declarations.vector_dbs import DIMENSION, Metric


class AnnIndexConfig(Settings):
    """Settings of pgvector's approximate nearest neighbor index."""

    type: Literal["hnsw", "ivfflat"] = Field("hnsw", description="The kind of index.")
    name: SqlName | None = Field(
        None, description="The prefix of its name. By default the name of the table and `_ann`."
    )
    m: int = Field(16, ge=2, le=100, description="hnsw: number of links per vector.")
    ef_construction: int = Field(
        128, ge=4, le=1000, description="hnsw: number of candidates compared to build it."
    )
    ef_search: int = Field(
        200,
        ge=1,
        le=1000,
        description="hnsw: number of candidates that a search compares. A higher number finds more "
        "of the nearest vectors, and takes longer.",
    )
    build_max_bytes: int = Field(
        1_073_741_824,
        ge=65_536,
        le=2_000_000_000_000,
        description="hnsw: maximum memory of the server for building it, in bytes. With 384 "
        "dimensions, a million vectors need 2.6 GB. Building an index that does not fit is many "
        "times slower.",
    )
    lists: int | None = Field(
        None,
        ge=1,
        le=32768,
        description="ivfflat: number of lists. By default it depends on the number of rows.",
    )
    probes: int | None = Field(
        None,
        ge=1,
        le=32768,
        description="ivfflat: number of lists a search reads. By default the square root of lists.",
    )


class PoolConfig(Settings):
    """Settings of the pool of connections, which a process has once for each DSN."""

    min_size: int = Field(
        0, ge=0, le=1000, description="Number of idle connections that stay open."
    )
    max_size: int = Field(
        8,
        ge=1,
        le=1000,
        description="Maximum number of concurrent connections. If several vector databases of one "
        "DSN have different sizes, the largest applies.",
    )
    timeout_seconds: float = Field(
        30, gt=0, le=600, description="Seconds a call waits for a free connection."
    )

    @model_validator(mode="after")
    def _min_fits(self) -> PoolConfig:
        if self.min_size > self.max_size:
            hint = f"expected at most max_size, {self.max_size}"
            raise RefusedError([Fault(f"min_size is {self.min_size}", hint, ("min_size",))])
        return self


class PgvectorSettings(Settings):
    """Settings of the PostgreSQL store, without the database itself."""

    table: SqlName = Field(
        "knowledge_chunks",
        description="The prefix of the name of its table; `_vectors` follows.",
    )
    ensure_schema: bool = Field(
        True,
        description="Create the extension and the tables if they are missing. If this is false, an "
        "error shows the SQL statements that create them.",
    )
    ensure_index: bool = Field(
        False,
        description="Keep approximate indexes of each knowledge base with at least 10,000 "
        "passages. Without them, searches are exact.",
    )
    index: AnnIndexConfig = Field(
        default_factory=AnnIndexConfig, description="Settings of the approximate index."
    )
    metric: Metric = Field(
        "cosine",
        description="The distance that the approximate index uses. Scores are always cosines.",
    )
    dimension: int | None = Field(None, ge=1, le=16000, description=DIMENSION)
    pool: PoolConfig = Field(default_factory=PoolConfig, description="The connection pool.")
