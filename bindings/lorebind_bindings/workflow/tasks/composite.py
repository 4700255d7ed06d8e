"""`composite`: another workflow, run as a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_bindings.inputs import check_inputs
from lorebind_bindings.workflow.results import together
from lorebind_bindings.workflow.run_workflow import outputs_of, run_tasks
from lorebind_bindings.workflow.running import Frame
from lorebind_bindings.workflow.state import Channels

if TYPE_CHECKING:
    from lorebind_bindings.workflow.results import Outcome
    from lorebind_bindings.workflow.running import Context


async def work(context: Context) -> Outcome:
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
