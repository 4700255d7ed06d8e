"""Tasks that hold others, and the choice among all kinds of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from lorebind_knowledge.declarations.base import Fault, RefusedError
from lorebind_knowledge.declarations.values import JsonValue
from lorebind_knowledge.declarations.workflows.base import Strategy, TaskBase
from lorebind_knowledge.declarations.workflows.leaves import (
    AggregateTask,
    BasicTask,
    CompositeTask,
    PythonTask,
    RouterTask,
    WaitTask,
)
from lorebind_knowledge.declarations.workflows.one_or_more import OneOrMore

if TYPE_CHECKING:
    from collections.abc import Sequence


class ParallelTask(TaskBase):
    """Tasks that run side by side."""

    type: Literal["parallel"] = Field(description="Runs tasks side by side.")
    branches: list[Annotated[list[TaskDeclaration], OneOrMore(), Field(min_length=1)]] = Field(
        min_length=1, description="What runs side by side: each a task, or a list of tasks."
    )
    max_workers: int | None = Field(
        None, ge=1, description="How many branches run at a time. By default all."
    )
    strategy: Strategy = Field(
        "wait_all",
        description="If a branch fails: `wait_all` ends the others first, `fail_fast` cancels "
        "them, `best_effort` gives null for it. `race` takes the first that succeeds.",
    )

    def flows(self) -> Sequence[Sequence[TaskBase]]:
        return self.branches if isinstance(self.branches, list) else []


class CollectionTask(TaskBase):
    """The same tasks for each item of a list."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "items")
    expressions: ClassVar[tuple[str, ...]] = (*TaskBase.expressions, "filter")

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_does_something`
            "oneOf": [
                {
                    "required": ["task"],
                    "properties": {"task": {"not": {"type": "null"}}, "tasks": {"maxItems": 0}},
                },
                {
                    "required": ["tasks"],
                    "properties": {"task": {"type": "null"}, "tasks": {"minItems": 1}},
                },
            ]
        }
    )

    type: Literal["collection"] = Field(description="Runs tasks for each item of a list.")
    items: JsonValue = Field(description="The list; a template that names one, or the list itself.")
    filter: str | None = Field(
        None, description="A CEL expression over `item` and `index`: which items are worked on."
    )
    task: TaskDeclaration | None = Field(None, description="What runs for each item.")
    tasks: list[TaskDeclaration] = Field(
        default_factory=list, description="The same for several tasks; the last gives the output."
    )
    max_workers: int = Field(4, ge=1, description="How many items are worked on at a time.")
    max_items: int = Field(10_000, ge=1, description="The longest list; a longer one is an error.")
    strategy: Strategy = Field("wait_all", description="If an item fails, see `parallel`.")

    @model_validator(mode="after")
    def _does_something(self) -> CollectionTask:
        if (self.task is None) == (not self.tasks):
            fault = (
                Fault("missing key 'task'", "write what runs for each item")
                if self.task is None
                else Fault("task and tasks are both given", "keep one of them", ("tasks",))
            )
            raise RefusedError([fault])
        return self

    def flows(self) -> Sequence[Sequence[TaskBase]]:
        if self.task is not None:
            return [[self.task]]
        return [self.tasks] if isinstance(self.tasks, list) else []


def _kind_of_task(data: Any) -> Any:
    return data.get("type", "basic") if isinstance(data, dict) else getattr(data, "type", "basic")


TaskDeclaration: TypeAlias = Annotated[
    Annotated[BasicTask, Tag("basic")]
    | Annotated[CompositeTask, Tag("composite")]
    | Annotated[RouterTask, Tag("router")]
    | Annotated[PythonTask, Tag("python")]
    | Annotated[AggregateTask, Tag("aggregate")]
    | Annotated[WaitTask, Tag("wait")]
    | Annotated[ParallelTask, Tag("parallel")]
    | Annotated[CollectionTask, Tag("collection")],
    Discriminator(_kind_of_task),
]
"""One of the tasks, chosen by `type`; without one it is `basic`."""

ParallelTask.model_rebuild()
CollectionTask.model_rebuild()
