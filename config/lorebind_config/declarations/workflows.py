"""`workflows:` their inputs, tasks and state, and the storage for their threads."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from lorebind_config.declarations.agents import AgentDeclaration
from lorebind_config.declarations.base import OUTSIDE, Declaration, Id, Wants, empty_list, refused
from lorebind_config.declarations.bindings import BindingDeclaration
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration
from lorebind_config.declarations.tasks import (
    ChannelDeclaration,
    TaskBase,
    TaskDeclaration,
    with_nested,
)
from lorebind_config.declarations.values import FilePattern, JsonMap, JsonValue, Secret
from lorebind_config.project_files import THREADS_FILE


class CheckpointerDeclaration(Declaration):
    """The storage for threads: a SQLite file, the memory of the process, or PostgreSQL."""

    label: ClassVar[str] = "checkpointer"
    kind_key: ClassVar[str] = "type"
    templated: ClassVar[tuple[str, ...]] = ("path", "dsn")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_has_its_place`
            "if": {"properties": {"type": {"const": "postgres"}}, "required": ["type"]},
            "then": {"required": ["dsn"], "properties": {"dsn": {"not": {"type": "null"}}}},
            "else": {"properties": {"dsn": {"type": "null"}}},
            "anyOf": [
                {"properties": {"type": {"const": "sqlite"}}},
                {"properties": {"path": False}},
            ],
        }
    )

    type: Literal["sqlite", "memory", "postgres"] = Field(
        "sqlite",
        description="The kind of storage. `memory` loses all threads when the process ends.",
    )
    path: str = Field(
        THREADS_FILE,
        min_length=1,
        description="sqlite: the database file, relative to the project folder. A path outside the "
        "project folder is allowed but needs trust.",
    )
    dsn: Secret | None = Field(
        None, description="postgres: the database, postgresql://user:password@host/database."
    )

    def needs_trust(self) -> Iterator[tuple[str, Wants, str]]:
        yield "path", "write", OUTSIDE

    @model_validator(mode="after")
    def _has_its_place(self) -> Self:
        if self.type == "postgres" and self.dsn is None:
            raise refused("missing key 'dsn'", "a postgres checkpointer needs it")
        if self.type != "postgres" and self.dsn is not None:
            hint = "write type: postgres, or remove it"
            raise refused(f"{self.type} has no dsn", hint, "dsn")
        if self.type != "sqlite" and "path" in self.model_fields_set:
            hint = "write type: sqlite, or remove it"
            raise refused(f"{self.type} has no path", hint, "path")
        return self


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


class InputDeclaration(Declaration):
    """A value that is passed to a run of the workflow."""

    label: ClassVar[str] = "input"

    # The same as `_default_has_the_type`. If `type` is omitted, its default applies.
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
    description: str = Field("", description="The meaning of the value.")
    required: bool = Field(
        True, description="Whether a run without the value is refused, if there is no default."
    )
    default: JsonValue = Field(None, description="The value if a run does not pass one.")

    @model_validator(mode="after")
    def _default_has_the_type(self) -> Self:
        if self.default is not None and not self.accepts(self.default):
            raise refused(f"the default is not of type {self.type}", "", "default")
        return self

    def accepts(self, value: Any) -> bool:
        """Check whether a value has the declared type; a boolean is not a number."""
        if isinstance(value, bool) and self.type != "boolean":
            return False
        return isinstance(value, _TYPES[self.type])


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
        default_factory=empty_list,
        description="Knowledge bases that only this workflow can bind. They replace the project's "
        "knowledge bases with the same ids.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=empty_list,
        description="The knowledge bases that all its tasks can search, in addition to those of "
        "the project. `[]` means only those of its tasks and agents.",
    )
    agents: list[AgentDeclaration] = Field(
        default_factory=empty_list, description="Agents that only this workflow can use."
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


WorkflowEntry: TypeAlias = Annotated[
    Annotated[WorkflowDeclaration, Tag(WorkflowDeclaration.__name__)]
    | Annotated[WorkflowFile, Tag(WorkflowFile.__name__)],
    Discriminator(_kind_of_workflow),
]
"""A workflow in the project file: written in full, or by the path of its own file."""
