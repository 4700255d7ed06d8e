"""The graph of a workflow as data: its tasks with nested tasks, their edges, and a hash of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config.declarations.flow import Flow
from lorebind_config.declarations.tasks import (
    BasicTask,
    CollectionTask,
    CompositeTask,
    PythonTask,
    RouterTask,
    WaitTask,
)
from lorebind_config.namespace import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_config.declarations.tasks import TaskBase
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.reading.loaded import LoadedProject

_LONGEST = 80


@dataclass(frozen=True, slots=True)
class EdgeOutline:
    """An edge between two tasks of the same flow."""

    source: str
    target: str
    on: str
    """`success`, `error`, `route` or `default`."""
    label: str = ""
    """The name of the route, `error` or `default`; empty for success."""


@dataclass(frozen=True, slots=True)
class FlowOutline:
    """A list of tasks with the edges between them."""

    entry: str
    """The task that runs first."""
    tasks: list[TaskOutline]
    edges: list[EdgeOutline]
    in_order: bool
    """Whether the tasks run in order because no edge is declared."""

    @property
    def ends(self) -> list[str]:
        """The tasks after which nothing follows in the flow, except on an error."""
        going_on = {edge.source for edge in self.edges if edge.on != "error"}
        return [task.id for task in self.tasks if task.id not in going_on]


@dataclass(frozen=True, slots=True)
class TaskOutline:
    """A task with its nested tasks."""

    id: str
    path: str
    """The id of the task, prefixed with those of the tasks that contain it: `answers.answer`."""
    type: str
    about: str
    """The most important setting of its kind: the agent, function, condition, list or prompt."""
    condition: str = ""
    """The condition under which it runs; empty means always."""
    final: bool = False
    flows: list[FlowOutline] = field(default_factory=list)
    """The nested tasks: one list per branch, or the list that runs for each item."""


@dataclass(frozen=True, slots=True)
class WorkflowOutline:
    """A workflow with its graph."""

    id: str
    description: str
    inputs: list[str]
    flow: FlowOutline


def summary(declared: WorkflowDeclaration) -> dict[str, Any]:
    """Return a workflow's `id`, `description`, `inputs` by name, and the ids of its `tasks`."""
    return {
        "id": declared.id,
        "description": declared.description,
        "inputs": {
            name: {
                "type": declaration.type,
                "required": declaration.required and declaration.default is None,
            }
            for name, declaration in declared.input.items()
        },
        "tasks": [task.id for task in declared.tasks],
    }


def outline(loaded: LoadedProject, workflow: str) -> WorkflowOutline:
    """Return the graph of a workflow, including the workflows that its tasks run.

    Raises:
        NotFoundError: there is no such workflow.
    """
    declared = loaded.workflow(workflow)
    flow = _flow(loaded, declared.tasks, "")
    return WorkflowOutline(declared.id, declared.description, list(declared.input), flow)


def _flow(loaded: LoadedProject, tasks: Sequence[TaskBase], prefix: str) -> FlowOutline:
    flow = Flow(tasks)
    edges = [EdgeOutline(edge.source, edge.target, *_kind(edge.field)) for edge in flow.edges]
    drawn = [_task(loaded, task, f"{prefix}{task.id}") for task in tasks]
    return FlowOutline(flow.entry, drawn, edges, in_order=not flow.is_written)


def _kind(field_: str) -> tuple[str, str]:
    """Return the kind of an edge and its label."""
    if field_.startswith("routes."):
        return "route", field_.removeprefix("routes.")
    if field_ == "default":
        return "default", "default"
    return ("error", "error") if field_ == "on_error" else ("success", "")


def _task(loaded: LoadedProject, task: TaskBase, path: str) -> TaskOutline:
    inner = task.flows()
    if isinstance(task, CompositeTask):
        inner = [loaded.workflow(task.workflow).tasks]
    return TaskOutline(
        task.id,
        path,
        getattr(task, task.kind_key),
        _about(task),
        _short(task.condition or "") if not isinstance(task, RouterTask) else "",
        task.final,
        [_flow(loaded, tasks, f"{path}.") for tasks in inner],
    )


def _about(task: TaskBase) -> str:
    match task:
        case BasicTask():
            return f"agent {task.agent}" if task.agent else ""
        case PythonTask():
            return _short(task.call)
        case RouterTask():
            return _short(task.condition)
        case WaitTask():
            return _short(task.prompt)
        case CollectionTask():
            return f"each of {_short(task.items)}"
        case CompositeTask():
            return f"workflow {task.workflow}"
    return ""


def _short(value: Any) -> str:
    """Return the value as one line, cut with `...` if it is too long."""
    line = " ".join(str(value).split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."


def signature(loaded: LoadedProject, workflow: str) -> dict[str, str]:
    """Return a hash of the kind and the edges of each task, by the task's path.

    Prompts, models, knowledge, conditions and settings are not included: they may change while a
    thread waits.
    """
    return dict(_signed(loaded, loaded.workflow(workflow).tasks, ""))


def _signed(
    loaded: LoadedProject, tasks: Sequence[TaskBase], prefix: str
) -> Iterator[tuple[str, str]]:
    for place, task in enumerate(tasks):
        path = f"{prefix}{task.id}"
        kind = getattr(task, task.kind_key)
        graph = [kind, place, task.targets(), task.final, getattr(task, "workflow", None)]
        yield path, digest(json.dumps(graph, sort_keys=True))[:12]
        for flow in task.flows():
            yield from _signed(loaded, flow, f"{path}.")
        if kind == "composite":
            inner = loaded.workflow(graph[-1]).tasks
            yield from _signed(loaded, inner, f"{path}.")


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the paths of the tasks that were added, removed or changed."""
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
