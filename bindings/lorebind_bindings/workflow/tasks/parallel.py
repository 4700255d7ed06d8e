"""`parallel`: branches that run side by side."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from lorebind_bindings.workflow.results import Outcome, together
from lorebind_bindings.workflow.schedule import run_flow
from lorebind_bindings.workflow.side_by_side import Given, side_by_side

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context
    from lorebind_bindings.workflow.schedule import FlowResult


async def work(context: Context) -> Outcome:
    """
    Raises:
        TaskFailed, Suspended, UsageError: see `side_by_side`.
    """
    task, run = context.task, context.run
    frame = context.inside(f"{context.path}.")
    given: list[Given[FlowResult]] = await side_by_side(
        [functools.partial(run_flow, run, frame, branch) for branch in task.branches],
        task.max_workers or len(task.branches),
        task.strategy,
    )
    done = {name: one for part in given if part.value for name, one in part.value.tasks.items()}
    outcome = together(one.outcome for one in done.values())
    outcome.updates = frame.channels.side_by_side(part.updates(context.path) for part in given)
    outcome.parts = done
    outcome.usage = {name: one.outcome.usage for name, one in done.items() if one.outcome.usage}
    outcome.output = {
        inner.id: done[inner.id].outcome.output if inner.id in done else None
        for branch in task.branches
        for inner in branch
    }
    return outcome
