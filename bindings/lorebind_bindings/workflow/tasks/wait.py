"""`wait`: the run is suspended until somebody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_bindings.workflow.answers import answer_key
from lorebind_bindings.workflow.results import Outcome
from lorebind_bindings.workflow.running import Suspended

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def work(context: Context) -> Outcome:
    """
    Raises:
        Suspended: nobody has answered yet.
    """
    record = context.run.journal.records.get(answer_key(context.path))
    if record is not None:
        return Outcome(record["answer"])
    question = {
        "task": context.task.id,
        "path": context.path,
        "prompt": str(context.fill(context.task.prompt)),
        "schema": context.task.answer_schema,
    }
    raise Suspended(waiting=[question])
