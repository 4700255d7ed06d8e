"""The keys of all tasks: conditions, the next tasks, retries and timeouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field
from pydantic_core import core_schema

from lorebind_config.declarations.base import Declaration, Id
from lorebind_config.declarations.bindings import BindingDeclaration  # noqa: TC001  # in a signature that pydantic reads too
from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.declarations.values import FactoryPath, JsonMap, JsonValue

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue


class OneOrMore:
    """In `Annotated[list[T], OneOrMore()]`: a value that is not a list becomes a list of one."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(as_list, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


def as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


CHANNELS = ("messages", "extra", "errors")
"""The channels of every workflow."""


class ChannelDeclaration(Declaration):
    """A value that tasks update, and how updates are combined."""

    label: ClassVar[str] = "channel"

    reducers: list[FactoryPath] = Field(
        default_factory=list,
        description="Functions `(value, update) -> value`, as 'module:function', called in order. "
        "Without reducers, an update replaces the value, and tasks that run at the same time "
        "cannot both write it.",
    )
    default: JsonValue = Field(
        None, description="The value at the start of every turn of a thread."
    )


Next: TypeAlias = Annotated[list[Id], OneOrMore(), Field(min_length=1)]
"""The id of one task, or a list of ids."""

Strategy: TypeAlias = Literal["wait_all", "fail_fast", "best_effort", "race"]


class EdgeDeclaration(Declaration):
    """The next tasks."""

    label: ClassVar[str] = "edge"

    next: Next = Field(description="The id of the next task, or a list of ids.")


class CacheDeclaration(Declaration):
    """A time limit for reusing the output of a task for the same work."""

    label: ClassVar[str] = "cache"

    ttl_seconds: float = Field(
        gt=0, description="Seconds after which a stored output expires and the task runs again."
    )


class TaskBase(Declaration):
    """The base of all tasks."""

    label: ClassVar[str] = "task"
    kind_key: ClassVar[str] = "type"
    templated: ClassVar[tuple[str, ...]] = ("update",)
    expressions: ClassVar[tuple[str, ...]] = ("condition",)

    id: Id = Field(description="The id by which templates and edges refer to the task.")
    condition: str | None = Field(
        None,
        description="A CEL expression. If it is false, the task is skipped and the next task runs.",
    )
    on_success: EdgeDeclaration | None = Field(
        None, description="The next tasks after this task succeeded or was skipped."
    )
    on_error: EdgeDeclaration | None = Field(
        None,
        description="The next tasks if this task fails; their templates can read `error`. By "
        "default, the run fails.",
    )
    final: bool = Field(False, description="Whether the path of the run ends after this task.")
    retry: RetryConfig = Field(
        default_factory=lambda: RetryConfig(attempts=1),
        description="Retries after a timeout, or if a provider or database is unreachable or "
        "overloaded. By default, the task has one attempt.",
    )
    timeout_seconds: float | None = Field(
        None,
        gt=0,
        description="Maximum time in seconds for one attempt. By default there is no limit.",
    )
    cache: CacheDeclaration | None = Field(
        None,
        description="Reuses the output for the same work. Outputs are stored in this process only "
        "and lost when it ends.",
    )
    update: JsonMap = Field(
        default_factory=dict,
        description="The values that the task writes into channels, by the name of the channel; "
        "templates, which can read `output`.",
    )

    @property
    def answers_as(self) -> str | None:
        """The id of the agent that runs the task, if any."""
        return None

    @property
    def bindings(self) -> list[BindingDeclaration]:
        """The knowledge that the task itself binds."""
        return []

    def targets(self) -> dict[str, list[str]]:
        """Return the tasks that may run next, by the field that names them."""
        edges = {"on_success": self.on_success, "on_error": self.on_error}
        return {field: edge.next for field, edge in edges.items() if edge is not None}

    def flows(self) -> Sequence[Sequence[TaskBase]]:
        """Return the lists of tasks that are nested in this task."""
        return []


def with_nested(tasks: Iterable[TaskBase]) -> Iterator[TaskBase]:
    """Yield each task, followed by its nested tasks at any depth."""
    ahead = [iter(tasks)]
    while ahead:
        task = next(ahead[-1], None)
        if task is None:
            ahead.pop()
            continue
        yield task
        ahead.append(iter([inner for flow in task.flows() for inner in flow]))
