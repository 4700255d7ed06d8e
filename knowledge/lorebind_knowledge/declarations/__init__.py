"""Everything that the YAML may say, as strict models that know where they were written."""

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.base import Declaration, Position
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.embedders import (
    EmbedderDeclaration,
    HashingEmbedderConfig,
    HashingEmbedderDeclaration,
    LangChainEmbedderDeclaration,
    LocalEmbedderConfig,
    LocalEmbedderDeclaration,
)
from lorebind_knowledge.declarations.knowledge_bases import (
    ChunkingDeclaration,
    FileGlobSource,
    KnowledgeBaseDeclaration,
    MarkdownGlobSource,
    RetrievalDeclaration,
    SourceDeclaration,
)
from lorebind_knowledge.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_knowledge.declarations.project import AutoloadDeclaration, ProjectDeclaration
from lorebind_knowledge.declarations.vector_dbs import (
    MemoryVectorDB,
    MemoryVectorDBConfig,
    SqliteVectorDB,
    SqliteVectorDBConfig,
    VectorDBDeclaration,
)
from lorebind_knowledge.declarations.workflows import (
    BasicTask,
    InputDeclaration,
    TaskDeclaration,
    WorkflowDeclaration,
)

__all__ = [
    "EXTRACTIVE",
    "AgentDeclaration",
    "AutoloadDeclaration",
    "BasicTask",
    "BindingDeclaration",
    "ChunkingDeclaration",
    "Declaration",
    "EmbedderDeclaration",
    "FileGlobSource",
    "HashingEmbedderConfig",
    "HashingEmbedderDeclaration",
    "InputDeclaration",
    "KnowledgeBaseDeclaration",
    "LangChainEmbedderDeclaration",
    "LocalEmbedderConfig",
    "LocalEmbedderDeclaration",
    "MarkdownGlobSource",
    "MemoryVectorDB",
    "MemoryVectorDBConfig",
    "ModelDeclaration",
    "Position",
    "ProjectDeclaration",
    "RetrievalDeclaration",
    "SourceDeclaration",
    "SqliteVectorDB",
    "SqliteVectorDBConfig",
    "TaskDeclaration",
    "VectorDBDeclaration",
    "WorkflowDeclaration",
]
