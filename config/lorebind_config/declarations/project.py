"""`lorebind.yaml`: the declaration of a project."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import Declaration, Deferred, Id
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.checkpointers import CheckpointerDeclaration
from lorebind_config.declarations.embedders import EmbedderDeclaration
from lorebind_config.declarations.extensions import ExtensionDeclaration
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.models import ModelDeclaration
from lorebind_config.declarations.server import ServerDeclaration
from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.declarations.values import FilePattern
from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
from lorebind_config.declarations.workflows import WorkflowEntry
from lorebind_config.declarations.wrappers import WrapperDeclaration


class AutoloadDeclaration(Declaration):
    """Further files of the project. Each of them declares one resource.

    The key `resource` names its kind: `agent`, `workflow`, `embedder`, `vector_db` or
    `knowledge_base`. The other keys are the same as in the project file.
    """

    include: list[FilePattern] = Field(
        default_factory=list,
        description="Patterns of the files to load, relative to the project folder.",
    )
    exclude: list[FilePattern] = Field(
        default_factory=list, description="Patterns of files that are not loaded, even if included."
    )


class ProjectDeclaration(Declaration):
    """A project: its knowledge, where it can be searched, and the models that answer."""

    label: ClassVar[str] = "project"

    name: Id = Field(description="The name of the project.")
    description: str = Field("", description="The purpose of the project.")
    tenancy: Literal["optional", "required"] = Field(
        "optional",
        description="Whether calls must name their tenant. With `optional`, a call that names none "
        "is for the tenant `default`; with `required`, it is refused.",
    )
    embedders: list[EmbedderDeclaration] = Field(
        default_factory=list,
        description="The models that turn texts into vectors. By default one `local` embedder, "
        "which runs on this machine.",
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=list,
        description="The databases for the vectors. By default one `sqlite` database.",
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list,
        description="Knowledge bases that the project and all its workflows can bind.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list,
        description="Knowledge bases that all workflows, tasks and agents can search.",
    )
    models: list[ModelDeclaration] = Field(
        default_factory=list,
        description="The chat models. By default one `extractive` model, which quotes passages.",
    )
    agents: list[Annotated[AgentDeclaration, Deferred(AgentDeclaration)]] = Field(
        default_factory=list, description="Agents that all workflows can use."
    )
    workflows: list[WorkflowEntry] = Field(
        default_factory=list,
        description="The workflows. Each is written in full, or as `source` with the path of its "
        "own file.",
    )
    checkpointer: CheckpointerDeclaration = Field(
        default_factory=CheckpointerDeclaration,
        description="The storage for the threads of workflows. By default a SQLite file.",
    )
    wrappers: list[WrapperDeclaration] = Field(
        default_factory=list,
        description="Wrappers around embedders, vector databases and searches; the first is the "
        "outermost. A string is the path of a factory: `module:factory`.",
    )
    extensions: list[ExtensionDeclaration] = Field(
        default_factory=list,
        description="Extensions that receive the events of all ingests and searches. Installed "
        "extensions that are not declared here receive none.",
    )
    loading: LoadingDeclaration = Field(
        default_factory=LoadingDeclaration,
        description="Limits for reading one document.",
    )
    server: ServerDeclaration = Field(
        default_factory=ServerDeclaration,
        description="Settings of `lorebind serve`.",
    )
    autoload: AutoloadDeclaration = Field(
        default_factory=AutoloadDeclaration,
        description="Further files, each with one agent, workflow, embedder, vector database or "
        "knowledge base.",
    )
