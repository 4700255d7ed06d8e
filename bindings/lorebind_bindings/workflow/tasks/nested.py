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
    given, failed = await side_by_side(jobs, task.max_workers or len(jobs), task.strategy)
    parts: dict[str, Done] = {}
    for branch, part in zip(task.branches, given, strict=True):
        parts |= part.value.tasks if part.value else _parts(run, frame, branch)
    if failed is not None:
        failed.within = Outcome(parts=parts)
        raise failed
    done = {name: one for part in given if part.value for name, one in part.value.tasks.items()}
    outcome = together(one.outcome for one in done.values())
    outcome.updates = frame.channels.side_by_side(part.updates(context.path) for part in given)
    outcome.parts = parts
    outcome.usage = {name: one.outcome.usage for name, one in done.items() if one.outcome.usage}
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
    given, failed = await side_by_side(jobs, task.max_workers, task.strategy)
    found = [part.value for part in given]
    outputs = [one.output if one else None for one in found]
    each = [part.as_item() for part in given]
    if failed is not None:
        failed.within = Outcome(
            items=[{**one, "output": output} for one, output in zip(each, outputs, strict=True)]
        )
        raise failed
    outcome = together(done.outcome for one in found if one for done in one.tasks.values())
    outcome.updates = frame.channels.side_by_side(part.updates(context.path) for part in given)
    outcome.blocks = {}  # each item has blocks of its own
    outcome.output, outcome.items = outputs, each
    outcome.usage = {
        f"{context.path}[{index}].{name}": done.outcome.usage
        for (index, _), one in zip(items, found, strict=True)
        for name, done in (one.tasks if one else {}).items()
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
    found = await run_tasks(run, frame)
    outcome = together(done.outcome for done in found.tasks.values())
    outcome.output = outputs_of(run, frame, found)
    outcome.updates, outcome.blocks = [], {}  # the other workflow has its own state
    outcome.usage = {name: done.outcome.usage for name, done in found.tasks.items()}
    return outcome
