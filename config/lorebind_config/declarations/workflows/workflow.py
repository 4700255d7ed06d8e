"""Workflow files: inputs, tasks, and the workflow's own knowledge bases and agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import Declaration, Deferred, Id
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.checkpointers import CheckpointerDeclaration
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.values import FilePattern, JsonMap
from lorebind_config.declarations.workflows.base import ChannelDeclaration, TaskBase, with_nested
from lorebind_config.declarations.workflows.inputs import InputDeclaration
from lorebind_config.declarations.workflows.tasks import TaskDeclaration


class WorkflowDeclaration(Declaration):
    """A graph of tasks, with the knowledge and agents that they use."""

    label: ClassVar[str] = "workflow"
    templated: ClassVar[tuple[str, ...]] = ("vars", "outputs")

    resource: Literal["workflow"] | None = Field(
        None, description="Marks a file that declares a workflow: `resource: workflow`."
    )
    id: Id = Field(description="The id by which the workflow is run.")
    version: str | None = Field(None, description="The version of the workflow.")
    description: str = Field("", description="The purpose of the workflow.")
    input: dict[Id, InputDeclaration] = Field(
        default_factory=dict, description="The inputs for a run, by name."
    )
    vars: JsonMap = Field(
        default_factory=dict,
        description="Constant values for templates, by name: `{{ .workflow.vars.name }}`.",
    )
    knowledge_bases: list[KnowledgeBaseDeclaration] = Field(
        default_factory=list,
        description="Knowledge bases that only this workflow can bind. They replace the project's "
        "knowledge bases with the same ids.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list,
        description="The knowledge bases that all its tasks can search, in addition to those of "
        "the project. `[]` means only those of its tasks and agents.",
    )
    agents: list[AgentDeclaration] = Field(
        default_factory=list, description="Agents that only this workflow can use."
    )
    tasks: list[TaskDeclaration] = Field(
        min_length=1,
        description="The tasks. Without edges they run in order. With edges, the first task runs "
        "first and every other task needs an edge that leads to it. Ids are unique in the whole "
        "workflow.",
    )
    channels: dict[Id, ChannelDeclaration] = Field(
        default_factory=dict,
        description="State that tasks share, by name, in addition to `messages`, `extra` and "
        "`errors`.",
    )
    checkpointer: CheckpointerDeclaration | None = Field(
        None,
        description="The storage for the threads of the workflow. By default, the checkpointer of "
        "the project.",
    )
    max_steps: int = Field(
        1000,
        ge=1,
        description="Maximum number of tasks in one run; more are an error. Each item, branch and "
        "composite counts separately.",
    )
    outputs: dict[str, str] = Field(
        default_factory=dict, description="The outputs of a run, by name; templates."
    )

    def every_task(self) -> Iterator[TaskBase]:
        """Yield the tasks of the workflow, each followed by its nested tasks."""
        return with_nested(self.tasks)


class WorkflowFile(Declaration):
    """A workflow that is declared in its own file."""

    label: ClassVar[str] = "workflow file"
    marked_by: ClassVar[str] = "source"

    source: FilePattern = Field(
        description="The path of the workflow's file, relative to the project folder."
    )


def _kind_of_workflow(data: Any) -> str:
    named = isinstance(data, WorkflowFile) or (isinstance(data, dict) and "source" in data)
    return WorkflowFile.__name__ if named else WorkflowDeclaration.__name__


_AnyWorkflow: TypeAlias = Annotated[
    Annotated[WorkflowDeclaration, Tag(WorkflowDeclaration.__name__)]
    | Annotated[WorkflowFile, Tag(WorkflowFile.__name__)],
    Discriminator(_kind_of_workflow),
]
WorkflowEntry: TypeAlias = Annotated[_AnyWorkflow, Deferred(_AnyWorkflow)]
"""A workflow in the project file: written in full, or by the path of its own file."""
