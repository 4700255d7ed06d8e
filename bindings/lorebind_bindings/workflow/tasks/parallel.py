"""`parallel`: branches that run concurrently."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from lorebind_bindings.workflow.results import Done, Outcome, together
from lorebind_bindings.workflow.schedule import run_flow
from lorebind_bindings.workflow.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.workflow.running import Context, Frame, Run
    from lorebind_config.declarations.tasks import TaskBase


async def work(context: Context) -> Outcome:
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
