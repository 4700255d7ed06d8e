"""Tasks with nested tasks, and the union of all kinds of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from lorebind_config.declarations.base import Fault, RefusedError
from lorebind_config.declarations.values import JsonValue
from lorebind_config.declarations.workflows.base import OneOrMore, Strategy, TaskBase
from lorebind_config.declarations.workflows.leaves import (
    AggregateTask,
    BasicTask,
    CompositeTask,
    PythonTask,
    RouterTask,
    WaitTask,
)


class ParallelTask(TaskBase):
    """Tasks that run at the same time."""

    type: Literal["parallel"] = Field(description="Runs tasks at the same time.")
    branches: list[Annotated[list[TaskDeclaration], OneOrMore(), Field(min_length=1)]] = Field(
        min_length=1,
        description="The branches that run at the same time. Each is a task or a list of tasks.",
    )
    max_workers: int | None = Field(
        None,
        ge=1,
        description="Maximum number of branches that run at the same time. By default all.",
    )
    strategy: Strategy = Field(
        "wait_all",
        description="The response to a failed branch. `wait_all`: the other branches finish, then "
        "the task fails; `fail_fast`: the other branches are cancelled; `best_effort`: the outputs "
        "of the branch are null; `race`: the first branch that succeeds ends the task, and the "
        "others are cancelled.",
    )

    def flows(self) -> Sequence[Sequence[TaskBase]]:
        return self.branches if isinstance(self.branches, list) else []


class CollectionTask(TaskBase):
    """Tasks that run for each item of a list."""

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
    items: JsonValue = Field(description="The list itself, or a template that names a list.")
    filter: str | None = Field(
        None,
        description="A CEL expression over `item` and `index`. Items for which it is false are "
        "skipped.",
    )
    task: TaskDeclaration | None = Field(None, description="The task that runs for each item.")
    tasks: list[TaskDeclaration] = Field(
        default_factory=list,
        description="Several tasks that run for each item, instead of `task`. The last gives the "
        "output.",
    )
    max_workers: int = Field(
        4, ge=1, description="Maximum number of items that are worked on at the same time."
    )
    max_items: int = Field(
        10_000, ge=1, description="Maximum length of the list. A longer list is an error."
    )
    strategy: Strategy = Field(
        "wait_all", description="The response to a failed item; the same values as in `parallel`."
    )

    @model_validator(mode="after")
    def _does_something(self) -> CollectionTask:
        if (self.task is None) == (not self.tasks):
            fault = (
                Fault("missing key 'task'", "write the task that runs for each item")
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
"""A task, selected by `type`, which defaults to `basic`."""
