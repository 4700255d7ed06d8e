"""The YAML declarations, as strict models that remember where each value was written."""

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.base import Declaration, Position
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.checkpointers import CheckpointerDeclaration
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
    AggregateTask,
    BasicTask,
    CollectionTask,
    CompositeTask,
    InputDeclaration,
    ParallelTask,
    PythonTask,
    RouterTask,
    TaskBase,
    TaskDeclaration,
    WaitTask,
    WorkflowDeclaration,
)

__all__ = [
    "EXTRACTIVE",
    "AgentDeclaration",
    "AggregateTask",
    "AnyReranker",
    "AutoloadDeclaration",
    "BasicTask",
    "BindingDeclaration",
    "CheckpointerDeclaration",
    "CollectionTask",
    "CompositeTask",
    "Declaration",
    "EmbedderDeclaration",
    "FusionDeclaration",
    "InputDeclaration",
    "KnowledgeBaseDeclaration",
    "ModelDeclaration",
    "ParallelTask",
    "Position",
    "ProjectDeclaration",
    "PythonTask",
    "RetrievalDeclaration",
    "RouterTask",
    "SourceDeclaration",
    "TaskBase",
    "TaskDeclaration",
    "VectorDBDeclaration",
    "WaitTask",
    "WorkflowDeclaration",
]
