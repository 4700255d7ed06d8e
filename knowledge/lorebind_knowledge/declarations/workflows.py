"""Workflow files: inputs, tasks, and knowledge bases of their own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from lorebind_knowledge.declarations.agents import AgentDeclaration
from lorebind_knowledge.declarations.base import Declaration, Fault, Id, RefusedError
from lorebind_knowledge.declarations.bindings import BindingDeclaration
from lorebind_knowledge.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_knowledge.declarations.values import FilePattern, JsonMap, JsonValue

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class InputDeclaration(Declaration):
    """One value that a run of the workflow is given."""

    label: ClassVar[str] = "input"

    # The same as `_default_has_the_type`; without a type it is the type's own default.
    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {
                        "properties": {"type": {"const": name}},
                        "required": [] if name == "string" else ["type"],
                    },
                    "then": {"properties": {"default": {"type": [name, "null"]}}},
                }
                for name in _TYPES
            ]
        }
    )

    type: Literal["string", "integer", "number", "boolean", "array", "object"] = Field(
        "string", description="The JSON type of the value."
    )
    description: str = Field("", description="What the value means.")
    required: bool = Field(True, description="Whether a run without it is refused.")
    default: JsonValue = Field(None, description="The value when a run is given none.")

    @model_validator(mode="after")
    def _default_has_the_type(self) -> InputDeclaration:
        if self.default is not None and not self.accepts(self.default):
            raise RefusedError(
                [Fault(f"the default is not of type {self.type}", path=("default",))]
            )
        return self

    def accepts(self, value: Any) -> bool:
        """Whether a value is of the declared type; a boolean is no number."""
        if isinstance(value, bool) and self.type != "boolean":
            return False
        return isinstance(value, _TYPES[self.type])


class BasicTask(Declaration):
    """One prompt, answered by an agent or by the default model."""

    label: ClassVar[str] = "task"
    kind_key: ClassVar[str] = "type"
    templated: ClassVar[tuple[str, ...]] = ("prompt", "query", "history")

    id: Id = Field(description="The name by which later templates refer to the task.")
    type: Literal["basic"] = Field("basic", description="The kind of the task.")
    agent: str | None = Field(
        None, description="The id of the agent that answers. By default the default model answers."
    )
    prompt: str = Field(description="The question or instruction for the model; a template.")
    query: str | None = Field(
        None,
        description="The question that the knowledge is searched for; a template. By default the "
        "prompt.",
    )
    history: str | None = Field(
        None,
        description="A template that names what was said before: a list of messages, such as an "
        "input of the workflow. Each is a mapping with `role` and `content`.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=list, description="The knowledge bases that the task may use."
    )


class CompositeTask(Declaration):
    """Another workflow, run as one task of this one."""

    label: ClassVar[str] = "task"
    kind_key: ClassVar[str] = "type"
    templated: ClassVar[tuple[str, ...]] = ("input",)

    id: Id = Field(description="The name by which later templates refer to the task.")
    type: Literal["composite"] = Field(description="Runs another workflow.")
    workflow: str = Field(description="The id of the workflow; its output is the task's.")
    input: JsonMap = Field(
        default_factory=dict, description="The inputs of that workflow, by name; templates."
    )


def _kind_of_task(data: Any) -> Any:
    return data.get("type", "basic") if isinstance(data, dict) else getattr(data, "type", "basic")


TaskDeclaration: TypeAlias = Annotated[
    Annotated[BasicTask, Tag("basic")] | Annotated[CompositeTask, Tag("composite")],
    Discriminator(_kind_of_task),
]
"""One of the tasks, chosen by `type`; without one it is `basic`."""


class WorkflowDeclaration(Declaration):
    """Tasks that run one after the other, and the knowledge and agents that they use."""

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
    tasks: list[TaskDeclaration] = Field(min_length=1, description="The tasks, in order.")
    outputs: dict[str, str] = Field(
        default_factory=dict, description="The outputs of a run, by name; templates."
    )


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
