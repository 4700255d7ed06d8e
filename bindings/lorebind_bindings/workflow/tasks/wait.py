"""`wait`: suspends the run until its question is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_bindings.workflow.answers import answer_to
from lorebind_bindings.workflow.results import Outcome
from lorebind_bindings.workflow.running import Suspended

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def work(context: Context) -> Outcome:
    """Return the answer.

    Raises:
        Suspended: there is no answer yet.
    """
    question = {
        "task": context.task.id,
        "path": context.path,
        "prompt": str(context.fill(context.task.prompt)),
        "schema": context.task.answer_schema,
    }
    if record := answer_to(question, context.run.journal.records):
        return Outcome(record["answer"])
    raise Suspended(waiting=[question])
