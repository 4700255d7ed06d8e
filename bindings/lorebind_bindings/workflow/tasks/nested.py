"""`parallel`, `collection` and `composite`: tasks that run other tasks."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lorebind_bindings.inputs import check_inputs
from lorebind_bindings.workflow.results import Done, Outcome, together
from lorebind_bindings.workflow.running import Frame
from lorebind_bindings.workflow.schedule import outputs_of, run_flow, run_tasks
from lorebind_bindings.workflow.side_by_side import side_by_side
from lorebind_bindings.workflow.state import Channels
from lorebind_config.checks.conditions import Converted, compile_condition
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.workflow.running import Context, Run
    from lorebind_config.declarations.tasks import TaskBase


async def parallel(context: Context) -> Outcome:
    """Run all branches.

    Raises:
        TaskFailed, Suspended, UsageError: see `side_by_side`.
    """
    task, run = context.task, context.run
    frame = context.inside(f"{context.path}.")
    jobs = [functools.partial(run_flow, run, frame, branch) for branch in task.branches]
    results, failed = await side_by_side(jobs, task.max_workers or len(jobs), task.strategy)
    parts: dict[str, Done] = {}
    for branch, part in zip(task.branches, results, strict=True):
        parts |= part.value.tasks if part.value else _parts(run, frame, branch)
    if failed is not None:
        failed.within = Outcome(parts=parts)
        raise failed
    done = {
        name: task_done
        for part in results
        if part.value
        for name, task_done in part.value.tasks.items()
    }
    outcome = together(task_done.outcome for task_done in done.values())
    outcome.updates = frame.channels.side_by_side(part.updates(context.path) for part in results)
    outcome.parts = parts
    outcome.usage = {
        name: task_done.outcome.usage for name, task_done in done.items() if task_done.outcome.usage
    }
    outcome.output = {
        inner.id: done[inner.id].outcome.output if inner.id in done else None
        for branch in task.branches
        for inner in branch
    }
    return outcome


def _parts(run: Run, frame: Frame, branch: Sequence[TaskBase]) -> dict[str, Done]:
    """Return the records of a branch that failed or was cancelled; missing ones are cancelled."""
    parts = {}
    for inner in branch:
        path = f"{frame.prefix}{inner.id}"
        if (record := run.journal.records.get(path)) is not None:
            parts[inner.id] = Done.from_json(record)
        else:
            parts[inner.id] = Done(path, "cancelled", Outcome(), attempts=0)
    return parts


async def collection(context: Context) -> Outcome:
    """Run the tasks for all items.

    Raises:
        UsageError: `items` is not a list, or has more than `max_items` items.
        TaskFailed, Suspended: see `side_by_side`.
    """
    task, run = context.task, context.run
    items = _items(context)
    flow = task.flows()[0]
    frame = context.inside("", converted=Converted())
    jobs = [
        functools.partial(run_flow, run, frame.at_item(context.path, index, item), flow)
        for index, item in items
    ]
    results, failed = await side_by_side(jobs, task.max_workers, task.strategy)
    flows = [part.value for part in results]
    outputs = [ran.output if ran else None for ran in flows]
    each = [part.as_item() for part in results]
    if failed is not None:
        failed.within = Outcome(
            items=[
                {**record, "output": output} for record, output in zip(each, outputs, strict=True)
            ]
        )
        raise failed
    outcome = together(done.outcome for ran in flows if ran for done in ran.tasks.values())
    outcome.updates = frame.channels.side_by_side(part.updates(context.path) for part in results)
    outcome.blocks = {}  # each item has blocks of its own
    outcome.output, outcome.items = outputs, each
    outcome.usage = {
        f"{context.path}[{index}].{name}": done.outcome.usage
        for (index, _), ran in zip(items, flows, strict=True)
        for name, done in (ran.tasks if ran else {}).items()
        if done.outcome.usage
    }
    return outcome


def _items(context: Context) -> list[tuple[int, Any]]:
    """Return the items to process, each with its position in the list."""
    task = context.task
    items = context.fill(task.items)
    if not isinstance(items, list):
        raise UsageError(
            f"items of collection {task.id!r} must be a list, got {_kind(items)}; "
            'write a template that names one: items: "{{ .input.questions }}"'
        )
    if len(items) > task.max_items:
        raise UsageError(
            f"collection {task.id!r} has {len(items)} items, more than max_items "
            f"({task.max_items}); raise max_items, or filter the list first"
        )
    numbered = list(enumerate(items))
    if task.filter is None:
        return numbered
    chosen, values, converted = compile_condition(task.filter), context.values(), Converted()
    return [
        (index, item)
        for index, item in numbered
        if chosen.truth({**values, "item": item, "index": index}, converted)
    ]


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


async def composite(context: Context) -> Outcome:
    """Run the other workflow.

    Raises:
        UsageError: an input is missing, unknown, or of another type.
        TaskFailed, Suspended: see `run_flow`.
    """
    run, task = context.run, context.task
    declared = run.parts.loaded.workflow(task.workflow)
    inputs = check_inputs(declared, context.fill(dict(task.input)))
    channels = Channels(declared, run.environment)
    frame = Frame(
        declared,
        inputs,
        channels,
        channels.start(),
        prefix=f"{context.path}.",
        failures_are_final=context.handles_failures(),
    )
    result = await run_tasks(run, frame)
    outcome = together(done.outcome for done in result.tasks.values())
    outcome.output = outputs_of(run, frame, result)
    outcome.updates, outcome.blocks = [], {}  # the other workflow has its own state
    outcome.usage = {name: done.outcome.usage for name, done in result.tasks.items()}
    return outcome
