"""A file of resources: parts of a project that `export` writes and `apply` reads."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_knowledge.declarations.base import Declaration
from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration


class ResourcesDeclaration(Declaration):
    """Embedders, vector databases and knowledge bases, to be taken into a project."""

    label: ClassVar[str] = "file of resources"

    embedders: list[EmbedderDeclaration] = Field(
        default_factory=list, description="What turns texts into vectors."
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=list, description="Where vectors are kept."
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list, description="Knowledge bases that the whole project sees."
    )
