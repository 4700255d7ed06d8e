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
from lorebind_knowledge.declarations.environment import Environment
from lorebind_knowledge.declarations.knowledge_bases import (
    ChunkingDeclaration,
    FileGlobSource,
    KnowledgeBaseDeclaration,
    MarkdownGlobSource,
    RetrievalDeclaration,
    SourceDeclaration,
)
from lorebind_knowledge.declarations.loaded import LoadedProject
from lorebind_knowledge.declarations.loading import PROJECT_FILE, build_project, load_project
from lorebind_knowledge.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_knowledge.declarations.problems import problems
from lorebind_knowledge.declarations.project import AutoloadDeclaration, ProjectDeclaration
from lorebind_knowledge.declarations.templates import TemplateError, references, resolve
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
from lorebind_knowledge.declarations.yaml_source import YamlSource

__all__ = [
    "EXTRACTIVE",
    "PROJECT_FILE",
    "AgentDeclaration",
    "AutoloadDeclaration",
    "BasicTask",
    "BindingDeclaration",
    "ChunkingDeclaration",
    "Declaration",
    "EmbedderDeclaration",
    "Environment",
    "FileGlobSource",
    "HashingEmbedderConfig",
    "HashingEmbedderDeclaration",
    "InputDeclaration",
    "KnowledgeBaseDeclaration",
    "LangChainEmbedderDeclaration",
    "LoadedProject",
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
    "TemplateError",
    "VectorDBDeclaration",
    "WorkflowDeclaration",
    "YamlSource",
    "build_project",
    "load_project",
    "problems",
    "references",
    "resolve",
]
