"""Settings of the PostgreSQL store, as they are declared and as it takes them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lorebind_knowledge.declarations.base import Fault, RefusedError, Settings
from lorebind_knowledge.declarations.values import SqlName
from lorebind_knowledge.declarations.vector_dbs import DIMENSION, Metric


class AnnIndexConfig(Settings):
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


class PoolConfig(Settings):
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


class PgvectorSettings(Settings):
    """Settings of the PostgreSQL store, whatever its database."""

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
    dimension: int | None = Field(None, ge=1, le=16000, description=DIMENSION)
    pool: PoolConfig = Field(default_factory=PoolConfig, description="Connections kept open.")
