"""The YAML declarations, as strict models that remember where each value was written."""

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import Declaration, Position
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.checkpointers import CheckpointerDeclaration
from lorebind_config.declarations.embedders import EmbedderDeclaration
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_config.declarations.project import AutoloadDeclaration, ProjectDeclaration
from lorebind_config.declarations.retrieval import (
    AnyReranker,
    FusionDeclaration,
    RetrievalDeclaration,
)
from lorebind_config.declarations.sources import SourceDeclaration
from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
from lorebind_config.declarations.workflows import (
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
