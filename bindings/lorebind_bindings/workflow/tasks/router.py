"""`router`: a condition whose value says what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.results import Outcome
from lorebind_knowledge.configuration.conditions import compile_condition
from lorebind_knowledge.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def work(context: Context) -> Outcome:
    """
    Raises:
        ConditionError: the condition has no value.
        UsageError: there is no such route, and no default.
    """
    task = context.task
    value = compile_condition(task.condition).value(context.values(), context.frame.converted)
    route = _as_text(value)
    if route in task.routes:
        return Outcome(value, route=f"routes.{route}")
    if task.default is None:
        raise UsageError(
            f"the condition of router {task.id!r} gave {value!r}, which is no route; "
            f"{did_you_mean(route, task.routes)}"
        )
    return Outcome(value, route="default")


def _as_text(value: Any) -> str:
    """A value as the keys of `routes` write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
