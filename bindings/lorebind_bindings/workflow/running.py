"""One run of a workflow as its tasks see it: what they may use, and where they are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lorebind_bindings.inputs import running_scope
from lorebind_bindings.workflow.task_cache import TaskCache
from lorebind_knowledge.configuration import fill
from lorebind_knowledge.configuration.make_part import PartEnvironment
from lorebind_knowledge.configuration.named_code import named_part
from lorebind_knowledge.declarations.workflows.flow import Flow
from lorebind_knowledge.errors import LorebindError, UsageError
from lorebind_knowledge.redaction import without

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from lorebind_bindings.model_pool import ModelPool
    from lorebind_bindings.resolver import ResolvedBinding
    from lorebind_bindings.workflow.events.bus import EventBus
    from lorebind_bindings.workflow.results import Outcome, Update
    from lorebind_bindings.workflow.state import Channels, Past, State
    from lorebind_bindings.workflow.threads.journal import Journal
    from lorebind_knowledge.configuration import LoadedProject
    from lorebind_knowledge.configuration.conditions import Converted
    from lorebind_knowledge.declarations import AgentDeclaration, TaskBase, WorkflowDeclaration
    from lorebind_knowledge.service import KnowledgeService
    from lorebind_prompts import TokenCounter

NO_ITEM: Any = object()


class Suspended(Exception):  # noqa: N818  # a signal, as LangGraph's GraphBubbleUp
    """Nothing can go on before somebody answers, or lets a task begin."""

    def __init__(self, waiting: Sequence[dict[str, Any]] = (), paused: Sequence[str] = ()) -> None:
        self.waiting = list(waiting)
        """`task`, `path`, `prompt` and `schema` of each question."""
        self.paused = list(paused)
        """The paths of the tasks that were asked to be stopped before."""
        super().__init__("a run is suspended")

    @classmethod
    def all_of(cls, several: Sequence[Suspended]) -> Suspended:
        return cls(
            [one for part in several for one in part.waiting],
            [one for part in several for one in part.paused],
        )


class NotKept(Exception):  # noqa: N818  # a signal, as no task is to handle it
    """What a task gave could not be written down; `__cause__` says why."""


class TaskFailed(Exception):  # noqa: N818  # a signal; users get a TaskError
    """A task failed, and nothing handles it where it is."""

    def __init__(self, error: dict[str, str], cause: BaseException) -> None:
        self.error = error
        """`task`, `path`, `type` and `message`."""
        self.cause = cause
        self.attempts = 1
        self.within: Outcome | None = None
        """What became of the items or branches of the task that raises this."""
        super().__init__(f"{error['path']} failed: {error['type']}: {error['message']}")


class Parts:
    """What all runs of a project share; what is made of declarations is made once."""

    def __init__(self, loaded: LoadedProject, service: KnowledgeService, models: ModelPool) -> None:
        self.loaded, self.service, self.models = loaded, service, models
        self.cache = TaskCache()
        self._flows: dict[tuple[int, ...], Flow] = {}
        self._functions: dict[int, Callable[..., Any]] = {}
        self._bound: dict[tuple[str, str], list[ResolvedBinding]] = {}

    def flow(self, tasks: Sequence[TaskBase]) -> Flow:
        """The graph of a list of tasks of the project's declarations."""
        key = tuple(map(id, tasks))  # the list may be a new one at every run
        if key not in self._flows:
            self._flows[key] = Flow(tasks)
        return self._flows[key]

    def bindings(self, workflow: str, task: str) -> list[ResolvedBinding]:
        """The knowledge that a task may use."""
        from lorebind_bindings.resolver import resolve

        if (workflow, task) not in self._bound:
            resolved = resolve(self.loaded, workflow=workflow, task=task)
            self._bound[workflow, task] = self.models.condensing(resolved)
        return self._bound[workflow, task]

    def function(self, task: Any) -> Callable[..., Any]:
        """What a `python` task calls.

        Raises:
            UsageError: it cannot be imported, or belongs to the standard library or to Lorebind.
        """
        if id(task) not in self._functions:
            try:
                named = named_part(task, self.loaded.environment, ("call",))
            except UsageError as error:  # messages on tasks that fail name the task already
                raise UsageError(str(error).replace(f"task {task.id!r}: ", "", 1)) from error
            self._functions[id(task)] = named
        return self._functions[id(task)]

    def agent(self, task: TaskBase, workflow: str) -> AgentDeclaration | None:
        name = task.answers_as
        return self.loaded.agent(name, workflow) if name else None

    def model(self, agent: AgentDeclaration | None) -> tuple[BaseChatModel, TokenCounter]:
        return self.models.get(agent.model if agent else None)


@dataclass(slots=True)
class Run:
    """One turn of a thread."""

    parts: Parts
    journal: Journal
    bus: EventBus
    turn: str
    """Names the turn, also when it is resumed."""
    interrupt_before: Collection[str] = ()
    """The ids of the tasks before which it is paused."""
    environment: PartEnvironment = field(init=False)

    def __post_init__(self) -> None:
        self.environment = PartEnvironment(self.parts.loaded.environment)

    def said(self, error: Exception) -> str:
        """The words of an error, without the secrets that the run has looked up."""
        return without(str(error) or type(error).__name__, self.environment.told)


async def keep(run: Run, record: dict[str, Any]) -> None:
    """Write a record down.

    Raises:
        NotKept: it could not be written.
    """
    try:
        await run.journal.put(record)
    except LorebindError as error:
        raise NotKept from error


@dataclass(frozen=True, slots=True)
class Frame:
    """Where a list of tasks runs: the workflow, the item, and what happened around it."""

    workflow: WorkflowDeclaration
    inputs: Mapping[str, Any]
    channels: Channels
    state: State
    """Before the first task of the list."""
    prefix: str = ""
    """What the paths of its tasks begin with: `answers[3].`."""
    outputs: Mapping[str, Any] = field(default_factory=dict)
    """What the tasks around it gave, by id."""
    blocks: Mapping[str, str] = field(default_factory=dict)
    item: Any = NO_ITEM
    index: int = 0
    error: dict[str, str] | None = None
    """The failure that led here, where the tasks are within one that handles it."""
    failures_are_final: bool = False
    """Whether something around the tasks handles their failures, so that none runs again."""
    converted: Converted | None = None
    """What the conditions of all items of a collection share, as long as it runs."""

    def at_item(self, path: str, index: int, item: Any) -> Frame:
        """The same for an item of a collection."""
        return replace(self, prefix=f"{path}[{index}].", item=item, index=index)


@dataclass(frozen=True, slots=True)
class Context:
    """One execution of a task."""

    run: Run
    frame: Frame
    task: Any
    """Its declaration."""
    path: str
    past: Past
    led_by: Any = None
    """The output of the task that led here."""
    error: dict[str, str] | None = None
    """The failure that led here."""
    attempt: int = 1

    def state(self) -> State:
        """The channels as the task sees them."""
        return self.past.state(self.frame.channels, self.frame.state)

    def take(self, updates: Sequence[Update]) -> None:
        """Refuse what the task writes, if a channel is not there or does not take it.

        Raises:
            UsageError: naming the channel.
        """
        for update in updates:
            self.frame.channels.check(update.channel)
        if updates:
            self.frame.channels.updated(self.state(), updates)

    def outputs(self) -> dict[str, Any]:
        """What the tasks before it and around it gave, null where they did not run."""
        own = {name: one for name, (_, one) in self.past.outputs.items()}
        return {**self.frame.outputs, **own}

    def values(self) -> dict[str, Any]:
        """What conditions know: no variable of the environment."""
        frame = self.frame
        inputs = dict(frame.inputs)
        known: dict[str, Any] = {
            "input": inputs,
            "workflow": {"input": inputs},
            "tasks": {name: {"output": output} for name, output in self.outputs().items()},
            "state": self.state(),
            "output": self.led_by,
            "error": self.error or frame.error,
        }
        if frame.item is not NO_ITEM:
            known |= {"item": frame.item, "index": frame.index}
        return known

    def scopes(self) -> dict[str, Any]:
        """What templates may name."""
        known = self.values()
        del known["output"]
        if known["error"] is None:
            del known["error"]
        frame = self.frame
        workflow = running_scope(self.run.environment, frame.workflow, frame.inputs)
        workflow["vars"] = {**workflow["vars"], **frame.blocks, **self.past.blocks}
        return {**self.run.environment.scopes(), **known, "workflow": workflow}

    def fill(self, value: Any, **more: Any) -> Any:
        """A value with its templates filled in.

        Raises:
            TemplateError: a name that is not there.
        """
        return fill(value, {**self.scopes(), **more})

    def inside(self, prefix: str, **changes: Any) -> Frame:
        """Where the tasks run that this one holds."""
        return replace(
            self.frame,
            prefix=prefix,
            outputs=self.outputs(),
            blocks={**self.frame.blocks, **self.past.blocks},
            state=self.state(),
            error=self.error or self.frame.error,
            failures_are_final=self.handles_failures(),
            **changes,
        )

    def handles_failures(self) -> bool:
        """Whether the failures of the tasks that this one holds are handled, here or around it."""
        task = self.task
        if getattr(task, "strategy", "") == "best_effort":
            return True
        if task.retry.attempts > 1:
            return False  # another try runs them again
        return task.on_error is not None or self.frame.failures_are_final

    def emit(self, type_: Any, **data: Any) -> None:
        self.run.bus.emit(type_, self.task.id, self.path, **data)
