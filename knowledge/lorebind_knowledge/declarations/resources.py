"""A file of resources: parts of a project that `export` writes and `apply` reads."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration

RESOURCES = {
    "embedder": "embedders",
    "vector_db": "vector_dbs",
    "knowledge_base": "knowledge_bases",
}
"""What `resource` says in a file of one resource, and the list of a project that it belongs to."""

SECTIONS = tuple(RESOURCES.values())
"""The keys of a project that hold resources."""


class ResourcesDeclaration(Declaration):
    """Embedders, vector databases and knowledge bases, to be taken into a project."""

    label: ClassVar[str] = "file of resources"

    workflow: str | None = Field(
        None, description="The workflow that declares the knowledge bases. By default the project."
    )
    embedders: list[EmbedderDeclaration] = Field(
        default_factory=list, description="What turns texts into vectors."
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=list, description="Where vectors are kept."
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list, description="Documents that are searched together."
    )
