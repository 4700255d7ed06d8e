"""`aggregate`: combines the outputs of other tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_bindings.workflow.results import Outcome

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def work(context: Context) -> Outcome:
    return Outcome(context.fill(dict(context.task.outputs)))
