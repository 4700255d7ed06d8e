"""`collection`: the same tasks for each item of a list."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.results import Outcome, together
from lorebind_bindings.workflow.schedule import run_flow
from lorebind_bindings.workflow.side_by_side import side_by_side
from lorebind_config.checks.conditions import Converted, compile_condition
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def work(context: Context) -> Outcome:
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
