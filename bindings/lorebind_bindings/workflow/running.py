"""The context of running tasks: the parts of the project, the run, and the values they can use."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lorebind_bindings.inputs import running_scope
from lorebind_bindings.workflow.results import TaskCache
from lorebind_config.checks.named_code import named_part
from lorebind_config.declarations.flow import Flow
from lorebind_config.errors import LorebindError, UsageError
from lorebind_config.reading.make_part import PartEnvironment
from lorebind_config.redaction import message_of
from lorebind_config.templates import fill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from lorebind_bindings.models import ModelPool
    from lorebind_bindings.resolver import BindingScope, ResolvedBinding
    from lorebind_bindings.workflow.events.bus import EventBus
    from lorebind_bindings.workflow.results import Outcome, Update
    from lorebind_bindings.workflow.state import Channels, State, TaskHistory
    from lorebind_bindings.workflow.threads.journal import Journal
    from lorebind_config.checks.conditions import Converted
    from lorebind_config.declarations.tasks import TaskBase
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.reading.loaded import LoadedProject
    from lorebind_knowledge.service import KnowledgeService

NO_ITEM: Any = object()


class Suspended(Exception):  # noqa: N818  # a signal, as LangGraph's GraphBubbleUp
    """The run cannot continue until a question is answered or a paused task may start."""

    def __init__(self, waiting: Sequence[dict[str, Any]] = (), paused: Sequence[str] = ()) -> None:
        self.waiting = list(waiting)
        """`task`, `path`, `prompt` and `schema` of each question."""
        self.paused = list(paused)
        """The paths of the tasks that the run was asked to pause before."""
        super().__init__("a run is suspended")

    @classmethod
    def all_of(cls, several: Sequence[Suspended]) -> Suspended:
        return cls(
            [question for part in several for question in part.waiting],
            [path for part in several for path in part.paused],
        )


class NotKept(Exception):  # noqa: N818  # a signal, as no task is to handle it
    """The record of a task could not be stored; `__cause__` is the reason."""


class TaskFailed(Exception):  # noqa: N818  # a signal; users get a TaskError
    """A task failed and no `on_error` of it handles the failure."""

    def __init__(self, error: dict[str, str], cause: BaseException) -> None:
        self.error = error
        """`task`, `path`, `type` and `message`, and the `command` that the message suggests."""
        self.cause = cause
        self.attempts = 1
        self.within: Outcome | None = None
        """The outcomes of the items or branches of the task that raises this."""
        super().__init__(f"{error['path']} failed: {error['type']}: {error['message']}")


class Parts:
    """Objects that all runs of a project share; each is created from its declaration once."""

    def __init__(self, loaded: LoadedProject, service: KnowledgeService, models: ModelPool) -> None:
        self.loaded, self.service, self.models = loaded, service, models
        self.cache = TaskCache()
        self._flows: dict[tuple[int, ...], Flow] = {}
        self._functions: dict[str, Callable[..., Any]] = {}
        self._bound: dict[tuple[str | None, str | None], list[ResolvedBinding]] = {}

    def over(self, loaded: LoadedProject, service: KnowledgeService) -> Parts:
        """Return the parts of a view of the project; they share everything else."""
        view = copy(self)
        view.loaded, view.service = loaded, service
        return view

    def flow(self, tasks: Sequence[TaskBase]) -> Flow:
        """Return the graph of a list of declared tasks."""
        key = tuple(map(id, tasks))  # each run may pass another list of the same tasks
        if key not in self._flows:
            self._flows[key] = Flow(tasks)
        return self._flows[key]

    def bindings(self, scope: BindingScope) -> list[ResolvedBinding]:
        """Return the bindings of a task, each with its `condense` model."""
        key = scope.workflow, scope.task
        if key not in self._bound:
            self._bound[key] = self.models.condensing(scope.resolve())
        return self._bound[key]

    def function(self, task: Any) -> Callable[..., Any]:
        """Return the function that a `python` task calls.

        Raises:
            UsageError: the function cannot be imported, or belongs to the standard library or to
                Lorebind.
        """
        if task.call not in self._functions:
            try:
                named = named_part(task, self.loaded.environment, ("call",))
            except UsageError as error:  # the messages of failed tasks name the task already
                raise UsageError(str(error).replace(f"task {task.id!r}: ", "", 1)) from error
            self._functions[task.call] = named
        return self._functions[task.call]


@dataclass(slots=True)
class Run:
    """One turn of a thread."""

    parts: Parts
    work: Mapping[str, Callable[[Context], Awaitable[Outcome]]]
    """The function that runs the tasks of each kind."""
    journal: Journal
    bus: EventBus
    turn: str
    """The id of the turn, which stays the same when the turn is resumed."""
    interrupt_before: Collection[str] = ()
    """The ids of the tasks before which the run pauses."""
    environment: PartEnvironment = field(init=False)

    def __post_init__(self) -> None:
        self.environment = PartEnvironment(self.parts.loaded.environment)

    def message(self, error: Exception) -> str:
        """Return the message of an error, without the secrets that the run has looked up."""
        return message_of(error, self.environment.secrets) or type(error).__name__


async def keep(run: Run, record: dict[str, Any]) -> None:
    """Store a record, or raise NotKept."""
    try:
        await run.journal.put(record)
    except LorebindError as error:
        raise NotKept from error


@dataclass(frozen=True, slots=True)
class Frame:
    """The surroundings of a list of tasks: the workflow, the item, and earlier results."""

    workflow: WorkflowDeclaration
    inputs: Mapping[str, Any]
    channels: Channels
    state: State
    """The state before the first task of the list."""
    prefix: str = ""
    """The prefix of the paths of its tasks: `answers[3].`."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """The outputs of the tasks around it, by id."""
    blocks: Mapping[str, str] = field(default_factory=dict)
    item: Any = NO_ITEM
    index: int = 0
    error: dict[str, str] | None = None
    """The failure that the surrounding task handles, if it does."""
    failures_are_final: bool = False
    """Whether an outer task handles failures of these tasks, so that failed ones do not rerun."""
    converted: Converted | None = None
    """Converted values that the conditions of all items of a collection share while it runs."""

    def at_item(self, path: str, index: int, item: Any) -> Frame:
        """Return the frame for an item of a collection."""
        return replace(self, prefix=f"{path}[{index}].", item=item, index=index)


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one execution of a task."""

    run: Run
    frame: Frame
    task: Any
    """The declaration of the task."""
    path: str
    past: TaskHistory
    led_by: Any = None
    """The output of the task whose edge led to this one."""
    error: dict[str, str] | None = None
    """The failure that led to this task."""
    attempt: int = 1

    def state(self) -> State:
        """Return the channels as the task sees them."""
        return self.past.state(self.frame.channels, self.frame.state)

    def take(self, updates: Sequence[Update]) -> None:
        """Check that the channels exist and accept the values that the task writes.

        Raises:
            UsageError: a channel does not exist or rejects a value; the message names the channel.
        """
        for update in updates:
            self.frame.channels.check(update.channel)
        if updates:
            self.frame.channels.updated(self.state(), updates)

    def outputs(self) -> dict[str, Any]:
        """Return the outputs of earlier and outer tasks by id; None for tasks that did not run."""
        outputs = {name: output for name, (_, output) in self.past.outputs.items()}
        return {**self.frame.outputs, **outputs}

    def blocks(self) -> dict[str, str]:
        """Return the blocks of passages of earlier and outer tasks, by variable."""
        return {**self.frame.blocks, **self.past.blocks}

    def is_foreign(self, reference: Sequence[str]) -> bool:
        """Check whether a value in a prompt is something else than a block of passages."""
        return reference[:2] != ("workflow", "vars") or ".".join(reference[2:]) not in self.blocks()

    def values(self) -> dict[str, Any]:
        """Return the values that conditions can use, which exclude environment variables."""
        frame = self.frame
        inputs = dict(frame.inputs)
        values: dict[str, Any] = {
            "input": inputs,
            "workflow": {"input": inputs},
            "tasks": {name: {"output": output} for name, output in self.outputs().items()},
            "state": self.state(),
            "output": self.led_by,
            "error": self.error or frame.error,
        }
        if frame.item is not NO_ITEM:
            values |= {"item": frame.item, "index": frame.index}
        return values

    def scopes(self) -> dict[str, Any]:
        """Return the values that templates can use."""
        values = self.values()
        del values["output"]
        if values["error"] is None:
            del values["error"]
        frame = self.frame
        workflow = running_scope(self.run.environment, frame.workflow, frame.inputs)
        workflow["vars"] = {**workflow["vars"], **self.blocks()}
        return {**self.run.environment.scopes(), **values, "workflow": workflow}

    def fill(self, value: Any, **more: Any) -> Any:
        """Return a value with its templates filled in.

        Raises:
            TemplateError: a template uses a name that is not defined.
        """
        return fill(value, {**self.scopes(), **more})

    def inside(self, prefix: str, **changes: Any) -> Frame:
        """Return the frame for the nested tasks of this one."""
        return replace(
            self.frame,
            prefix=prefix,
            outputs=self.outputs(),
            blocks=self.blocks(),
            state=self.state(),
            error=self.error or self.frame.error,
            failures_are_final=self.handles_failures(),
            **changes,
        )

    def handles_failures(self) -> bool:
        """Check whether this task or an outer one handles failures of the nested tasks."""
        task = self.task
        if getattr(task, "strategy", "") == "best_effort":
            return True
        if task.retry.attempts > 1:
            return False  # another attempt runs them again
        return task.on_error is not None or self.frame.failures_are_final

    def emit(self, type_: Any, **data: Any) -> None:
        self.run.bus.emit(type_, self.task.id, self.path, **data)
