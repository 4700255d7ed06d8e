"""Everything that the YAML may say, as strict models that know where they were written."""

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.base import Declaration, Position
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_knowledge.declarations.project import AutoloadDeclaration, ProjectDeclaration
from lorebind_knowledge.declarations.retrieval import (
    AnyReranker,
    FusionDeclaration,
    RetrievalDeclaration,
)
from lorebind_knowledge.declarations.sources import SourceDeclaration
from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration
from lorebind_knowledge.declarations.workflows import (
    BasicTask,
    CompositeTask,
    InputDeclaration,
    TaskDeclaration,
    WorkflowDeclaration,
)

__all__ = [
    "EXTRACTIVE",
    "AgentDeclaration",
    "AnyReranker",
    "AutoloadDeclaration",
    "BasicTask",
    "BindingDeclaration",
    "CompositeTask",
    "Declaration",
    "EmbedderDeclaration",
    "FusionDeclaration",
    "InputDeclaration",
    "KnowledgeBaseDeclaration",
    "ModelDeclaration",
    "Position",
    "ProjectDeclaration",
    "RetrievalDeclaration",
    "SourceDeclaration",
    "TaskDeclaration",
    "VectorDBDeclaration",
    "WorkflowDeclaration",
]
