"""Resource files: parts of a project that `export` writes and `apply` reads."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.embedders import EmbedderDeclaration
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.vector_dbs import VectorDBDeclaration

RESOURCES = {
    "embedder": "embedders",
    "vector_db": "vector_dbs",
    "knowledge_base": "knowledge_bases",
}
"""The values of `resource` in a file with one resource, and the project key each belongs to."""

SECTIONS = tuple(RESOURCES.values())
"""The keys of a project that contain resources."""


class ResourcesDeclaration(Declaration):
    """Embedders, vector databases and knowledge bases to add to a project."""

    label: ClassVar[str] = "file of resources"

    workflow: str | None = Field(
        None,
        description="The id of the workflow that declares the knowledge bases. By default, the "
        "project declares them.",
    )
    embedders: list[EmbedderDeclaration] = Field(
        default_factory=list, description="The models that turn texts into vectors."
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=list, description="The databases for the vectors."
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list,
        description="The knowledge bases: documents that are searched together.",
    )
