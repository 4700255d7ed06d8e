"""`vector_dbs:` where chunks and their vectors are kept."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration, Id


class _VectorDB(Declaration):
    label: ClassVar[str] = "vector database"
    kind_key: ClassVar[str] = "type"

    id: Id = Field(description="The name by which knowledge bases refer to the database.")


class MemoryVectorDBConfig(Declaration):
    """The memory store has no settings."""


class MemoryVectorDB(_VectorDB):
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


class SqliteVectorDB(_VectorDB):
    """Vectors in one SQLite file: the default."""

    type: Literal["sqlite"] = Field(description="Kept in a SQLite file.")
    config: SqliteVectorDBConfig = Field(
        default_factory=SqliteVectorDBConfig, description="Which file."
    )


VectorDBDeclaration: TypeAlias = Annotated[
    MemoryVectorDB | SqliteVectorDB, Field(discriminator="type")
]
"""One of the vector databases, chosen by `type`."""
