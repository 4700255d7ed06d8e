"""The names that templates and conditions of a task may use, known before any run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lorebind_config.checks.task_graph import TaskGraph
from lorebind_config.declarations.tasks import CHANNELS, BasicTask, CollectionTask, TaskBase
from lorebind_config.declarations.workflows import WorkflowDeclaration
from lorebind_config.errors import did_you_mean
from lorebind_config.templates import ANYTHING, Reference

_ERROR = dict.fromkeys(("task", "type", "message"), ANYTHING)
_ONLY = {
    "item": "item is available only in the tasks of a collection",
    "index": "index is available only in the tasks of a collection",
    "error": "error is available only after an on_error",
    "output": "output is available only in update and in conditions",
}


@dataclass(frozen=True, slots=True)
class TaskScope:
    """A task, and the tasks that can run before it in its own list and in the enclosing ones."""

    task: TaskBase
    graph: TaskGraph
    number: int
    around: TaskScope | None
    """The task that contains this one, if any."""

    @property
    def per_item(self) -> bool:
        """Whether the task is in a collection."""
        holder = self.around
        return holder is not None and (isinstance(holder.task, CollectionTask) or holder.per_item)

    @property
    def after_error(self) -> bool:
        """Whether an `on_error` can lead to the task."""
        direct = self.graph.can_follow_error(self.number)
        return direct or (self.around is not None and self.around.after_error)

    @property
    def knows_ids(self) -> bool:
        """Whether the ids of all tasks that can run before it could be read."""
        direct = self.graph.knows_ids or all(
            isinstance(task.id, str) or not self.graph.may_name(self.number, number)
            for number, task in enumerate(self.graph.tasks)
        )
        return direct and (self.around is None or self.around.knows_ids)

    @property
    def follows_prompt(self) -> bool:
        """Whether a task that may inject passages can run before it."""
        return not self.knows_ids or any(isinstance(task, BasicTask) for task in self.before())

    def before(self) -> Iterator[TaskBase]:
        """Yield the tasks that can run before it."""
        for number, task in enumerate(self.graph.tasks):
            if self.graph.may_name(self.number, number):
                yield task
        if self.around is not None:
            yield from self.around.before()

    def can_follow(self, task_id: str) -> bool:
        """Check whether a task with that id can run before it."""
        numbers = self.graph.numbers.get(task_id, ())
        if any(self.graph.may_name(self.number, number) for number in numbers):
            return True
        return self.around is not None and self.around.can_follow(task_id)


class _Before(Mapping[str, Any]):
    """The scope `tasks` for one task."""

    def __init__(self, scope: TaskScope) -> None:
        self._scope = scope

    def __getitem__(self, task_id: str) -> Any:
        if not self._scope.can_follow(task_id):
            raise KeyError(task_id)
        return {"output": ANYTHING}

    def __iter__(self) -> Iterator[str]:
        return iter({task.id: None for task in self._scope.before()})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def task_scopes(tasks: Sequence[TaskBase], around: TaskScope | None = None) -> Iterator[TaskScope]:
    """Yield all tasks of a list, each before the tasks that it contains."""
    graph = TaskGraph(tasks)
    for number, task in enumerate(tasks):
        scope = TaskScope(task, graph, number, around)
        yield scope
        for flow in task.flows():
            yield from task_scopes(flow, scope)


class Names:
    """The names that each part of a workflow may use, and the reasons for refusing others."""

    def __init__(self, workflow: WorkflowDeclaration, injected: Collection[Reference] = ()) -> None:
        self.injected = [reference for reference in injected if reference[0] == "workflow"]
        """The variables that passages are injected as; later tasks can read them too."""
        # If a declaration could not be read, every name in it is allowed.
        self.inputs: Any = ANYTHING
        if isinstance(workflow.input, dict):
            self.inputs = dict.fromkeys(workflow.input, ANYTHING)
        self.state: Any = ANYTHING
        if isinstance(workflow.channels, dict):
            self.state = dict.fromkeys([*CHANNELS, *workflow.channels], ANYTHING)
        self.before_vars = {"input": self.inputs, "workflow": {"input": self.inputs}}
        self.running = {
            "input": self.inputs,
            "workflow": {"input": self.inputs, "vars": _placeholders(workflow.vars)},
        }
        self.outputs = {
            **widened(self.running, self.injected),
            "tasks": _outputs(workflow.tasks),
            "state": self.state,
        }
        self._holders = dict(_holders(workflow.tasks))

    def of(self, scope: TaskScope) -> dict[str, Any]:
        """Return the scopes of the templates of a task."""
        scopes: dict[str, Any] = {
            **self.running,
            "tasks": _Before(scope) if scope.knows_ids else ANYTHING,
            "state": self.state,
        }
        if self.injected and scope.follows_prompt:
            scopes = widened(scopes, self.injected)
        if scope.per_item:
            scopes |= {"item": ANYTHING, "index": ANYTHING}
        if scope.after_error:
            scopes["error"] = _ERROR
        return scopes

    def why(
        self, reference: Reference, scopes: Mapping[str, Any], by: TaskBase | None = None
    ) -> tuple[str, str] | None:
        """Return why a name is unknown, as message and hint; None if there is no special reason.

        Args:
            reference: The name, such as ("tasks", "read", "output").
            scopes: The names that may be used there.
            by: The task that uses the name.
        """
        first = reference[0]
        if first in _ONLY and first not in scopes:
            return _ONLY[first], ""
        for inputs in (("input",), ("workflow", "input")):
            rest = reference[len(inputs) :]
            is_input = first in scopes and reference[: len(inputs)] == inputs and rest
            if is_input and isinstance(self.inputs, dict) and rest[0] not in self.inputs:
                hint = f"{did_you_mean(rest[0], self.inputs)}; declare it below input:"
                return f".{'.'.join(inputs)} has no {rest[0]!r}", hint
        if first != "tasks" or "tasks" not in scopes:
            return None
        ends = range(2, len(reference) + 1)
        ids = (".".join(reference[1:end]) for end in ends)
        task_id = next((name for name in ids if name in self._holders), None)
        earlier = scopes["tasks"]
        if task_id is None or not isinstance(earlier, Mapping) or task_id in earlier:
            return None
        holder = self._holders[task_id]
        inside = f"task {task_id!r} is inside task {holder!r}"
        if holder is not None and holder in earlier:
            return inside, f"use tasks.{holder}.output"
        if by is not None and by.id == holder:
            return inside, did_you_mean(task_id, earlier)
        if by is None or by.id == task_id:
            return f"task {task_id!r} has no output here", did_you_mean(task_id, earlier)
        hint = f"known: {', '.join(sorted(earlier)) or 'none'}"
        return f"task {task_id!r} cannot come before {by.id!r}", hint


def widened(scopes: Mapping[str, Any], references: Collection[Reference]) -> dict[str, Any]:
    """Return the scopes with these names added."""
    wider = dict(scopes)
    for name, *rest in sorted(references):
        held = wider.get(name, {}) if rest else ANYTHING
        below = held if isinstance(held, Mapping) else None
        wider[name] = widened(below, [tuple(rest)]) if rest and below is not None else held
    return wider


def _outputs(tasks: Sequence[TaskBase]) -> Any:
    if all(isinstance(task.id, str) for task in tasks):
        return {task.id: {"output": ANYTHING} for task in tasks}
    return ANYTHING


def _holders(
    tasks: Sequence[TaskBase], holder: str | None = None
) -> Iterator[tuple[str, str | None]]:
    """Yield the id of each task with the id of the task that contains it."""
    for task in tasks:
        if isinstance(task.id, str):
            yield task.id, holder
            for flow in task.flows():
                yield from _holders(flow, task.id)


def _placeholders(value: Any) -> Any:
    """Return `vars` with ANYTHING for each text with templates, whose value only a run knows."""
    if isinstance(value, dict):
        return {key: _placeholders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_placeholders(item) for item in value]
    return ANYTHING if isinstance(value, str) and "{{" in value else value
