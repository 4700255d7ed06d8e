"""`tasks:` of a workflow: what they do, and which tasks run next."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from lorebind_config.declarations.base import Declaration, Id, empty_list, refused
from lorebind_config.declarations.bindings import (
    BindingDeclaration,  # in a signature that pydantic reads too
)
from lorebind_config.declarations.embedders import RetryConfig
from lorebind_config.declarations.values import FactoryPath, JsonMap, JsonValue


class OneOrMore:
    """In `Annotated[list[T], OneOrMore()]`: a value that is not a list becomes a list of one."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_before_validator_function(
            lambda value: value if isinstance(value, list) else [value], handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


CHANNELS = ("messages", "extra", "errors")
"""The channels of every workflow."""


class ChannelDeclaration(Declaration):
    """A value that tasks update, and how updates are combined."""

    label: ClassVar[str] = "channel"

    reducers: list[FactoryPath] = Field(
        default_factory=empty_list,
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

    def flows(self) -> Sequence[Sequence["TaskBase"]]:
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


class BasicTask(TaskBase):
    """A prompt that an agent or the default model answers."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "prompt", "query", "history")

    type: Literal["basic"] = Field("basic", description="Asks a model.")
    agent: str | None = Field(
        None,
        description="The id of the agent that answers. By default, the default model answers.",
    )
    prompt: str = Field(description="The question or instruction for the model; a template.")
    query: str | None = Field(
        None,
        description="The question to search the knowledge for; a template. By default, the prompt.",
    )
    history: str | None = Field(
        None,
        description="The earlier messages of the conversation, as a template that names a list, "
        "such as an input of the workflow. Each message is a mapping with `role` and `content`.",
    )
    knowledge: list[BindingDeclaration] = Field(
        default_factory=empty_list,
        description="The knowledge bases that the task can search, in addition to those of outer "
        "scopes. `[]` means only those of its agent.",
    )

    @property
    def answers_as(self) -> str | None:
        return self.agent

    @property
    def bindings(self) -> list[BindingDeclaration]:
        return self.knowledge


class CompositeTask(TaskBase):
    """Another workflow that runs as one task of this workflow."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "input")

    type: Literal["composite"] = Field(description="Runs another workflow.")
    workflow: str = Field(
        description="The id of the workflow. Its output is the output of the task."
    )
    input: JsonMap = Field(
        default_factory=dict, description="The inputs for that workflow, by name; templates."
    )


class RouterTask(TaskBase):
    """A choice of the next tasks."""

    model_config = ConfigDict(
        json_schema_extra={  # the same as `_goes_by_its_routes`
            "not": {"anyOf": [{"required": ["on_success"]}, {"required": ["final"]}]}
        }
    )

    type: Literal["router"] = Field(description="Chooses the next tasks.")
    condition: str = Field(
        description="A CEL expression. Its value selects the route and is the output of the task."
    )
    routes: dict[str, Next] = Field(
        min_length=1, description="The next tasks, by the value of the condition."
    )
    default: Next | None = Field(
        None, description="The next tasks for any other value. By default, it is an error."
    )

    @model_validator(mode="after")
    def _goes_by_its_routes(self) -> Self:
        for field in ("on_success", "final"):
            if field in self.model_fields_set:
                raise refused(f"a router has no {field}", "its routes name the next tasks", field)
        return self

    def targets(self) -> dict[str, list[str]]:
        routes = self.routes if isinstance(self.routes, dict) else {}
        named = {f"routes.{route}": tasks for route, tasks in routes.items()}
        default = {"default": self.default} if self.default is not None else {}
        return named | default | super().targets()


class PythonTask(TaskBase):
    """A call of a function from the project folder or an installed package."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "arguments")

    type: Literal["python"] = Field(description="Calls a function.")
    call: FactoryPath = Field(
        description="The function, sync or async, as 'module:function'. It returns JSON values or "
        "an `Update`. A parameter named `context` receives the context of the run."
    )
    arguments: JsonMap = Field(
        default_factory=dict,
        alias="with",
        description="The keyword arguments of the function; templates.",
    )


class AggregateTask(TaskBase):
    """A mapping of outputs of other tasks."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "outputs")

    type: Literal["aggregate"] = Field(description="Combines outputs into a mapping.")
    outputs: JsonMap = Field(
        min_length=1, description="The values of the mapping, by name; templates."
    )


class WaitTask(TaskBase):
    """A question to a person. The run is suspended until the person answers."""

    templated: ClassVar[tuple[str, ...]] = (*TaskBase.templated, "prompt")

    type: Literal["wait"] = Field(description="Waits for an answer.")
    prompt: str = Field(description="The question to the person; a template.")
    answer_schema: JsonMap | None = Field(
        None,
        alias="schema",
        description="The JSON Schema of the answer. By default, any JSON is accepted.",
    )


class ParallelTask(TaskBase):
    """Tasks that run at the same time."""

    type: Literal["parallel"] = Field(description="Runs tasks at the same time.")
    branches: list[Annotated[list["TaskDeclaration"], OneOrMore(), Field(min_length=1)]] = Field(
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

    def flows(self) -> Sequence[Sequence["TaskBase"]]:
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
    task: "TaskDeclaration | None" = Field(None, description="The task that runs for each item.")
    tasks: list["TaskDeclaration"] = Field(
        default_factory=empty_list,
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
    def _does_something(self) -> Self:
        if self.task is None and not self.tasks:
            raise refused("missing key 'task'", "write the task that runs for each item")
        if self.task is not None and self.tasks:
            raise refused("task and tasks are both given", "keep one of them", "tasks")
        return self

    def flows(self) -> Sequence[Sequence["TaskBase"]]:
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
