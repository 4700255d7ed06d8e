"""Workflow files: inputs, tasks, and knowledge bases of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.base import Declaration, Id
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.checkpointers import CheckpointerDeclaration
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.declarations.values import FilePattern, JsonMap
from lorebind_knowledge.declarations.workflows.base import TaskBase, with_nested
from lorebind_knowledge.declarations.workflows.channels import ChannelDeclaration
from lorebind_knowledge.declarations.workflows.inputs import InputDeclaration
from lorebind_knowledge.declarations.workflows.tasks import TaskDeclaration

if TYPE_CHECKING:
    from collections.abc import Iterator


class WorkflowDeclaration(Declaration):
    """A graph of tasks, with the knowledge and agents that they use."""

    label: ClassVar[str] = "workflow"
    templated: ClassVar[tuple[str, ...]] = ("vars", "outputs")

    resource: Literal["workflow"] | None = Field(
        None, description="Written in a file that declares a workflow."
    )
    id: Id = Field(description="The name by which the workflow is run.")
    version: str | None = Field(None, description="The version of the workflow.")
    description: str = Field("", description="What the workflow is for.")
    input: dict[Id, InputDeclaration] = Field(
        default_factory=dict, description="The inputs of a run, by name."
    )
    vars: JsonMap = Field(
        default_factory=dict, description="Values for templates: `{{ .workflow.vars.name }}`."
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list,
        description="Knowledge bases that only this workflow sees; they shadow the project's.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list, description="The knowledge bases that all its tasks may use."
    )
    agents: list[AgentDeclaration] = Field(
        default_factory=list, description="Agents that only this workflow sees."
    )
    tasks: list[TaskDeclaration] = Field(
        min_length=1,
        description="The tasks. Without edges they run in order. With edges, the first task runs "
        "first and every other task needs an edge that leads to it. Ids are unique in the whole "
        "workflow.",
    )
    channels: dict[Id, ChannelDeclaration] = Field(
        default_factory=dict,
        description="State that tasks share, by name, beside `messages`, `extra` and `errors`.",
    )
    checkpointer: CheckpointerDeclaration | None = Field(
        None, description="Where its threads are kept. By default where the project says."
    )
    max_steps: int = Field(
        1000,
        ge=1,
        description="The most tasks that one run may execute; more is an error. Each item, branch "
        "and composite counts on its own.",
    )
    outputs: dict[str, str] = Field(
        default_factory=dict, description="The outputs of a run, by name; templates."
    )

    def every_task(self) -> Iterator[TaskBase]:
        """Its tasks, each followed by those that it holds."""
        return with_nested(self.tasks)


class WorkflowFile(Declaration):
    """A workflow that has a file of its own."""

    label: ClassVar[str] = "workflow file"
    marked_by: ClassVar[str] = "source"

    source: FilePattern = Field(description="The file, relative to the project folder.")


def _kind_of_workflow(data: Any) -> str:
    named = isinstance(data, WorkflowFile) or (isinstance(data, dict) and "source" in data)
    return WorkflowFile.__name__ if named else WorkflowDeclaration.__name__


WorkflowEntry: TypeAlias = Annotated[
    Annotated[WorkflowDeclaration, Tag(WorkflowDeclaration.__name__)]
    | Annotated[WorkflowFile, Tag(WorkflowFile.__name__)],
    Discriminator(_kind_of_workflow),
]
"""A workflow as it stands in the project's file: in full, or by its own file's name."""
