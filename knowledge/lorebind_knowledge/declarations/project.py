"""`lorebind.yaml`: everything that a project declares."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.checkpointers import CheckpointerDeclaration
from lorebind_knowledge.declarations.embedders import EmbedderDeclaration
from lorebind_knowledge.declarations.extensions import ExtensionDeclaration
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.declarations.loading import LoadingDeclaration
from lorebind_knowledge.declarations.models import ModelDeclaration
from lorebind_knowledge.declarations.server import ServerDeclaration
from lorebind_knowledge.declarations.values import FilePattern
from lorebind_knowledge.declarations.vector_dbs import VectorDBDeclaration
from lorebind_knowledge.declarations.workflows import WorkflowEntry
from lorebind_knowledge.declarations.wrappers import WrapperDeclaration


class AutoloadDeclaration(Declaration):
    """Which further files belong to the project; each declares one thing.

    The key `resource` says what: `agent`, `workflow`, `embedder`, `vector_db` or `knowledge_base`.
    The other keys are those of the entry in the project's file.
    """

    include: list[FilePattern] = Field(
        default_factory=list, description="Patterns of files, relative to the project folder."
    )
    exclude: list[FilePattern] = Field(
        default_factory=list, description="Patterns of files that are not loaded."
    )


class ProjectDeclaration(Declaration):
    """A project: its knowledge, who may use it, and which models answer."""

    label: ClassVar[str] = "project"

    name: Id = Field(description="The name of the project.")
    description: str = Field("", description="What the project is about.")
    embedders: list[EmbedderDeclaration] = Field(
        default_factory=list, description="What turns texts into vectors. By default `local`."
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=list, description="Where vectors are kept. By default `sqlite`."
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list, description="The knowledge bases that the whole project sees."
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list, description="The knowledge bases that everything may use."
    )
    models: list[ModelDeclaration] = Field(
        default_factory=list, description="The chat models. By default an extractive one."
    )
    agents: list[AgentDeclaration] = Field(
        default_factory=list, description="The agents that all workflows see."
    )
    workflows: list[WorkflowEntry] = Field(
        default_factory=list,
        description="Workflows, each in full or, as `source`, by the name of its own file.",
    )
    checkpointer: CheckpointerDeclaration = Field(
        default_factory=CheckpointerDeclaration,
        description="Where the threads of workflows are kept. By default in a SQLite file.",
    )
    wrappers: list[WrapperDeclaration] = Field(
        default_factory=list,
        description="Wrappers around embedders, vector databases and searches, the outermost "
        "first. A text is the path of a factory: `module:factory`.",
    )
    extensions: list[ExtensionDeclaration] = Field(
        default_factory=list,
        description="Extensions that are told of every ingest and search. Others are not, even if "
        "they are installed.",
    )
    loading: LoadingDeclaration = Field(
        default_factory=LoadingDeclaration,
        description="What reading one document may take.",
    )
    server: ServerDeclaration = Field(
        default_factory=ServerDeclaration,
        description="How `lorebind serve` serves the project.",
    )
    autoload: AutoloadDeclaration = Field(
        default_factory=AutoloadDeclaration,
        description="Files that each declare one agent, workflow, embedder, vector database or "
        "knowledge base.",
    )
