"""`lorebind.yaml`: a project, and resources in files of their own."""

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import Field

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import Declaration, Id, empty_list
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.embedders import (
    NONE,
    EmbedderDeclaration,
    SparseEmbedderDeclaration,
)
from lorebind_config.declarations.kinds import REGISTRIES
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.models import EXTRACTIVE, ModelDeclaration
from lorebind_config.declarations.server import ServerDeclaration
from lorebind_config.declarations.sources import LoadingDeclaration
from lorebind_config.declarations.values import FilePattern
from lorebind_config.declarations.vector_dbs import VectorDBDeclaration
from lorebind_config.declarations.workflows import CheckpointerDeclaration, WorkflowEntry
from lorebind_config.declarations.wrappers import ExtensionDeclaration, WrapperDeclaration

EMBEDDER, VECTOR_DB = "local", "sqlite"
"""The kinds of the default embedder and vector database, which are also their ids."""
SPARSE = "local"
"""The kind of the built-in sparse embedder, which is also its id."""

LOCAL = "local"
"""The engine that uses the process of the ingest only."""

T = TypeVar("T", bound=Any)


McpTool: TypeAlias = Literal["search", "fetch", "list_documents", "find", "list_knowledge_bases"]
"""A tool that MCP clients can call."""


class McpDeclaration(Declaration):
    """Limits for clients of the Model Context Protocol (MCP)."""

    label: ClassVar[str] = "mcp"

    knowledge_bases: list[Id] = Field(
        default_factory=empty_list,
        description="The ids of the knowledge bases that they can read. By default all.",
    )
    tools: list[McpTool] = Field(
        default_factory=empty_list, description="The tools that they can call. By default all."
    )


class IngestionDeclaration(Declaration):
    """The processes that embed the texts of ingests, and the lease of each ingest."""

    label: ClassVar[str] = "ingestion"

    engine: str = Field(
        LOCAL,
        description="Where texts are embedded: `local` for the process of the ingest, or "
        "`distributed` for all processes of `lorebind worker`, on any machine. `distributed` "
        "needs catalogs in PostgreSQL, and the extra `scale`. Plugins may provide more engines.",
        json_schema_extra={"examples": [LOCAL, "distributed"]},
    )
    lease_seconds: float = Field(
        30,
        ge=3,
        le=3600,
        description="Seconds after which another ingest may take over from one that was suspended "
        "or lost its connection to the database.",
    )


RESOURCES = {
    "embedder": "embedders",
    "sparse_embedder": "sparse_embedders",
    "vector_db": "vector_dbs",
    "knowledge_base": "knowledge_bases",
}
"""The values of `resource` in a file with one resource, and the project key each belongs to."""

SECTIONS = tuple(RESOURCES.values())
"""The keys of a project that contain resources."""


class ResourcesDeclaration(Declaration):
    """Embedders, sparse embedders, vector databases and knowledge bases to add to a project."""

    label: ClassVar[str] = "file of resources"

    workflow: str | None = Field(
        None,
        description="The id of the workflow that declares the knowledge bases. By default, the "
        "project declares them.",
    )
    embedders: list[EmbedderDeclaration] = Field(
        default_factory=empty_list, description="The models that turn texts into vectors."
    )
    sparse_embedders: list[SparseEmbedderDeclaration] = Field(
        default_factory=empty_list, description="The models that turn texts into weighted terms."
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=empty_list, description="The databases for the vectors."
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=empty_list,
        description="The knowledge bases: documents that are searched together.",
    )


class AutoloadDeclaration(Declaration):
    """Further files of the project. Each of them declares one resource.

    The key `resource` names its kind: `agent`, `workflow`, `embedder`, `sparse_embedder`,
    `vector_db` or `knowledge_base`. The other keys are the same as in the project file.
    """

    include: list[FilePattern] = Field(
        default_factory=empty_list,
        description="Patterns of the files to load, relative to the project folder.",
    )
    exclude: list[FilePattern] = Field(
        default_factory=empty_list,
        description="Patterns of files that are not loaded, even if included.",
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
        default_factory=empty_list,
        description="The models that turn texts into vectors. By default one `local` embedder, "
        "which runs on this machine.",
    )
    sparse_embedders: list[SparseEmbedderDeclaration] = Field(
        default_factory=empty_list,
        description="The models that turn texts into weighted terms, in addition to the built-in "
        "one with the id `local`. A sparse embedder with the id `local` replaces it.",
    )
    vector_dbs: list[VectorDBDeclaration] = Field(
        default_factory=empty_list,
        description="The databases for the vectors. By default one `sqlite` database.",
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=empty_list,
        description="Knowledge bases that the project and all its workflows can bind.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=empty_list,
        description="Knowledge bases that all workflows, tasks and agents can search.",
    )
    models: list[ModelDeclaration] = Field(
        default_factory=empty_list,
        description="The chat models. By default one `extractive` model, which quotes passages.",
    )
    agents: list[AgentDeclaration] = Field(
        default_factory=empty_list, description="Agents that all workflows can use."
    )
    workflows: list[WorkflowEntry] = Field(
        default_factory=empty_list,
        description="The workflows. Each is written in full, or as `source` with the path of its "
        "own file.",
    )
    checkpointer: CheckpointerDeclaration = Field(
        default_factory=CheckpointerDeclaration,
        description="The storage for the threads of workflows. By default they are beside the "
        "catalog of the default vector database if that is in PostgreSQL, else in the SQLite file "
        "`.lorebind/threads.db`, which stays in use if it exists.",
    )
    wrappers: list[WrapperDeclaration] = Field(
        default_factory=empty_list,
        description="Wrappers around embedders, sparse embedders, vector databases and searches; "
        "the first is the outermost. A string is the path of a factory: `module:factory`.",
    )
    extensions: list[ExtensionDeclaration] = Field(
        default_factory=empty_list,
        description="Extensions that receive the events of all ingests and searches. Installed "
        "extensions that are not declared here receive none.",
    )
    loading: LoadingDeclaration = Field(
        default_factory=LoadingDeclaration,
        description="Limits for reading one document.",
    )
    ingestion: IngestionDeclaration = Field(
        default_factory=IngestionDeclaration,
        description="The processes that embed the texts of ingests.",
    )
    server: ServerDeclaration = Field(
        default_factory=ServerDeclaration,
        description="Settings of `lorebind serve`.",
    )
    mcp: McpDeclaration = Field(
        default_factory=McpDeclaration,
        description="Limits for the clients of `lorebind mcp` and of `/mcp`.",
    )
    autoload: AutoloadDeclaration = Field(
        default_factory=AutoloadDeclaration,
        description="Further files, each with one agent, workflow, embedder, sparse embedder, "
        "vector database or knowledge base.",
    )

    @property
    def embedders_or_default(self) -> Sequence[EmbedderDeclaration]:
        """The embedders, or else the local one."""
        return self.embedders or [built_in("embedders", EMBEDDER)]

    def embedder_of(self, kb: Any) -> Any:
        """Return the embedder of a knowledge base, also `none`; None if it is not known."""
        declared = selected(self.embedders_or_default, kb.embedder)
        return built_in("embedders", NONE) if declared is None and kb.embedder == NONE else declared

    @property
    def sparse_embedders_with_local(self) -> Sequence[SparseEmbedderDeclaration]:
        """The declared sparse embedders, and the built-in one unless another one has its id."""
        declared = self.sparse_embedders
        if any(item.id == SPARSE for item in declared):
            return declared
        return [built_in("sparse_embedders", SPARSE), *declared]

    @property
    def vector_dbs_or_default(self) -> Sequence[VectorDBDeclaration]:
        """The vector databases, or else a single SQLite file."""
        return self.vector_dbs or [built_in("vector_dbs", VECTOR_DB)]

    @property
    def shared_vector_db(self) -> VectorDBDeclaration | None:
        """The first vector database whose catalog is in PostgreSQL."""
        return next((db for db in self.vector_dbs_or_default if db.is_shared), None)

    @property
    def models_or_default(self) -> Sequence[ModelDeclaration]:
        """The chat models, or else the extractive one, which needs no API key."""
        return self.models or [ModelDeclaration(id="default", provider=EXTRACTIVE)]


@cache  # every search asks several times, and reading one takes longer than the rest of the lookup
def built_in(group: Literal["embedders", "sparse_embedders", "vector_dbs"], word: str) -> Any:
    """Return the declaration of a part that needs none, whose id is its kind."""
    registry = REGISTRIES[group]
    return registry.read({"id": word, registry.base.kind_key: word})


def default_of(declared: Sequence[T]) -> T:
    """Return the default declaration: the one with the id `default`, or else the first one."""
    return next((item for item in declared if item.id == "default"), declared[0])


def selected(declared: Sequence[Any], item_id: object) -> Any:
    """Return the declaration with an id, or the default for None; None if it is not known."""
    readable = [item for item in declared if isinstance(item.id, str)]
    if item_id is None:
        return default_of(declared) if len(readable) == len(declared) else None
    return next((item for item in readable if item.id == item_id), None)
