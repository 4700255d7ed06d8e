"""Spans and events of runs and their tasks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lorebind_bindings.observing import observe
from lorebind_bindings.workflow.running import TaskFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_bindings.observing import Observed
    from lorebind_bindings.workflow.running import Context
    from lorebind_bindings.workflow.threads.threads import Thread
    from lorebind_knowledge.events import Events


@contextmanager
def workflow_run(events: Events, thread: Thread, *, resumed: bool) -> Iterator[Observed]:
    """Observe a run of a workflow within a block, and send `workflow_ended`."""
    attributes = {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": thread.workflow,
        "gen_ai.conversation.id": thread.id,
        "lorebind.tenant": thread.tenant,
        "lorebind.project": thread.project,
        "lorebind.resumed": resumed,
    }
    data = {"workflow": thread.workflow, "status": "failed"}
    name = f"invoke_workflow {thread.workflow}"
    with observe(events, "workflow_ended", name, attributes, data) as observed:
        try:
            yield observed
        except BaseException as error:
            if isinstance(error, TaskFailed):
                observed.fail(error.error["type"])
            elif not isinstance(error, Exception):
                observed.data["status"] = "cancelled"
            raise
        finally:
            observed.attributes["lorebind.status"] = observed.data["status"]


@contextmanager
def task_run(context: Context) -> Iterator[Observed]:
    """Observe a task within a block, and send `task_ended`."""
    task, workflow = context.task, context.frame.workflow.id
    attributes = {
        "gen_ai.workflow.name": workflow,
        "lorebind.task.id": task.id,
        "lorebind.task.path": context.path,
        "lorebind.task.type": task.type,
    }
    data = {"workflow": workflow, "task": task.id, "status": "cancelled", "attempts": 0}
    events = context.run.parts.service.events
    with observe(events, "task_ended", f"task {task.id}", attributes, data) as observed:
        try:
            yield observed
        finally:
            for name in ("status", "attempts"):
                observed.attributes[f"lorebind.task.{name}"] = observed.data[name]
