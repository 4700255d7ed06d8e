"""Run a workflow from its first task to its outputs, by itself or as a task of another workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.running import Context
from lorebind_bindings.workflow.schedule import run_flow
from lorebind_bindings.workflow.state import TaskHistory

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Frame, Run
    from lorebind_bindings.workflow.schedule import FlowResult


async def run_tasks(run: Run, frame: Frame) -> FlowResult:
    """Run all tasks of the frame's workflow, see `run_flow`."""
    return await run_flow(run, frame, frame.workflow.tasks)


def outputs_of(run: Run, frame: Frame, found: FlowResult) -> Any:
    """Return the declared outputs by name; the output of the last task that ran if there are none.

    Raises:
        TemplateError: an output names something that a task did not return.
    """
    declared = frame.workflow
    if not declared.outputs:
        return found.output
    outputs = {name: (0, done.outcome.output) for name, done in found.tasks.items()}
    blocks = {
        name: text for done in found.tasks.values() for name, text in done.outcome.blocks.items()
    }
    context = Context(run, frame, None, declared.id, TaskHistory(outputs, blocks))
    return context.fill(dict(declared.outputs), state=found.state)
