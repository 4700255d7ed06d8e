"""Checks workflows that run other workflows: their inputs must fit, and none may run itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_config.checks.references import named, problem_at
from lorebind_config.declarations.workflows import CompositeTask, with_nested
from lorebind_config.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.errors import Problem


def composites(workflows: Sequence[WorkflowDeclaration]) -> Iterator[Problem]:
    """Find the problems of `composite` tasks: unknown workflows, wrong inputs and cycles."""
    by_id = {w.id: w for w in workflows if isinstance(w.id, str)}
    all_readable = all(isinstance(workflow.id, str) for workflow in workflows)
    for workflow in workflows:
        for task in _composite_tasks(workflow):
            inner = by_id.get(task.workflow) if isinstance(task.workflow, str) else None
            if inner is not None:
                yield from _inputs(task, inner)
            elif isinstance(task.workflow, str) and all_readable:
                message = f"{named(task, task.id)} runs unknown workflow {task.workflow!r}"
                yield problem_at(task, ("workflow",), message, did_you_mean(task.workflow, by_id))
    yield from _cycles(by_id)


def _composite_tasks(workflow: WorkflowDeclaration) -> Iterator[CompositeTask]:
    return (task for task in with_nested(workflow.tasks) if isinstance(task, CompositeTask))


def _inputs(task: CompositeTask, inner: WorkflowDeclaration) -> Iterator[Problem]:
    if not isinstance(inner.input, dict) or not isinstance(task.input, dict):
        return
    for name in task.input:
        if name not in inner.input:
            message = f"workflow {inner.id!r} has no input {name!r}"
            yield problem_at(task, ("input", name), message, did_you_mean(name, inner.input))
    for name, expected in inner.input.items():
        required = expected.required is True and expected.default is None
        if required and name not in task.input:
            message = f"workflow {inner.id!r} needs the input {name!r}"
            yield problem_at(
                task, ("input",), message, f"write it below input: of {named(task, task.id)}"
            )


def _cycles(by_id: Mapping[str, WorkflowDeclaration]) -> Iterator[Problem]:
    """Find each cycle once, at the task that closes it, in the order of the workflows."""
    done: set[str] = set()
    for start in by_id:
        way, ahead = [start], [_ahead(start, by_id, done)]
        while way:  # no recursion: a chain of workflows may be longer than Python's stack allows
            task = next(ahead[-1], None)
            if task is None:
                ahead.pop()
                done.add(way.pop())
            elif task.workflow in way:
                circle = [*way[way.index(task.workflow) :], task.workflow]
                message = f"workflow {task.workflow!r} would run itself: {' -> '.join(circle)}"
                yield problem_at(
                    task, ("workflow",), message, "remove one of these composite tasks"
                )
            elif task.workflow in by_id:
                way.append(task.workflow)
                ahead.append(_ahead(task.workflow, by_id, done))


def _ahead(
    name: str, by_id: Mapping[str, WorkflowDeclaration], done: set[str]
) -> Iterator[CompositeTask]:
    """Return the tasks that run other workflows; none if this workflow was already visited."""
    return iter(()) if name in done else _composite_tasks(by_id[name])
