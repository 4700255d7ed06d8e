"""`aggregate`, `router` and `wait`: tasks that combine outputs, choose a route, or ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.answers import answer_to
from lorebind_bindings.workflow.results import Outcome
from lorebind_bindings.workflow.running import Suspended
from lorebind_config.checks.conditions import compile_condition
from lorebind_config.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def aggregate(context: Context) -> Outcome:
    return Outcome(context.fill(dict(context.task.outputs)))


async def router(context: Context) -> Outcome:
    """Evaluate the condition and select a route.

    Raises:
        ConditionError: the condition has no value.
        UsageError: no route has this value, and there is no default.
    """
    task = context.task
    value = compile_condition(task.condition).value(context.values(), context.frame.converted)
    route = _as_text(value)
    if route in task.routes:
        return Outcome(value, route=f"routes.{route}")
    if task.default is None:
        raise UsageError(
            f"the condition of router {task.id!r} returned {value!r}, which is not a route; "
            f"{did_you_mean(route, task.routes)}"
        )
    return Outcome(value, route="default")


def _as_text(value: Any) -> str:
    """Return a value in the form of the keys of `routes`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


async def wait(context: Context) -> Outcome:
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
