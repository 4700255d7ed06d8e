"""The store that holds everything in memory: for tests, notebooks and short-lived processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from lorebind_config.declarations.base import Settings
from lorebind_config.declarations.vector_dbs import VectorDBBase
from lorebind_knowledge.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from lorebind_config.reading.make_part import PartEnvironment


class MemoryVectorDBConfig(Settings):
    """The memory store has no settings."""


class MemoryVectorDB(VectorDBBase):
    """Vectors and catalog in memory. They are lost when the process ends."""

    type: Literal["memory"] = Field(description="Store everything in memory.")
    config: MemoryVectorDBConfig = Field(
        default_factory=MemoryVectorDBConfig, description="There are no settings."
    )


Declaration = MemoryVectorDB


def make(declaration: MemoryVectorDB, environment: PartEnvironment) -> MemoryStore:
    return MemoryStore()


class MemoryStore(SqliteStore):
    """A `VectorStore` in memory: exact, and lost when the process ends."""

    persistent = False

    def __init__(self) -> None:
        super().__init__(None)
