"""`python`: a function of the project or of an installed package."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.results import Outcome
from lorebind_bindings.workflow.results import Update as ChannelUpdate
from lorebind_bindings.workflow.state import checked, copied
from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.namespace import digest
from lorebind_knowledge.plumbing.bridge import call_daemon, only_errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from lorebind_bindings.workflow.running import Context


class Update:
    """The return value of a function that writes into channels: `Update(output, messages=[…])`.

    Args:
        output: the output of the task; plain JSON.
        channels: the values to write, by the name of the channel.
    """

    def __init__(self, output: Any = None, **channels: Any) -> None:
        self.output, self.channels = output, channels

    def __repr__(self) -> str:
        return f"Update({self.output!r}, {', '.join(self.channels)})"


@dataclass(frozen=True)
class TaskContext:
    """The argument `context` of a `python` task's function, if it has such a parameter."""

    attempt: int
    """The number of the attempt; 1 for the first one."""
    idempotency_key: str
    """A key for services that accept one. It is the same for all attempts of this task in this run,
    including those after a resume."""
    task: str
    path: str
    _state: Callable[[], Mapping[str, Any]] = field(repr=False)
    _emit: Callable[[Any], None] = field(repr=False)

    @functools.cached_property
    def state(self) -> Mapping[str, Any]:
        """A read-only view of the channels as the task sees them: `context.state["messages"]`."""
        return MappingProxyType(copied(self._state()))

    def emit(self, data: Any) -> None:
        """Emit an event of type `custom` to the subscribers of the run.

        Args:
            data: plain JSON. A value that is not a mapping is stored under the key `value`.

        Raises:
            UsageError: the data is not JSON.
        """
        self._emit(data)


async def python(context: Context) -> Outcome:
    """Call the function.

    Raises:
        UsageError: the function cannot be imported, or has other parameters.
    """
    task = context.task
    function = context.run.parts.function(task)
    # Copied, because the function may change them, and other tasks read the same values.
    arguments = copied(context.fill(dict(task.arguments)))
    signature = inspect.signature(function)
    if "context" in signature.parameters and "context" not in arguments:
        arguments["context"] = _task_context(context)
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise UsageError(f"{task.call} {_misfit(signature, arguments, error)}") from None
    called = functools.partial(function, **arguments)
    result = called() if inspect.iscoroutinefunction(function) else await call_daemon(called)
    if inspect.isawaitable(result):
        result = await asyncio.create_task(_awaited(result))
    if not isinstance(result, Update):
        return Outcome(result)
    updates = []
    for name, value in result.channels.items():
        what = f"what task {context.path!r} writes into channel {name!r}"
        updates.append(ChannelUpdate(name, checked(value, what), context.path))
    return Outcome(result.output, updates=updates)


def _misfit(signature: inspect.Signature, arguments: Collection[str], error: TypeError) -> str:
    """Return why a function cannot be called with arguments of these names."""
    parameters = signature.parameters.values()
    by_name = {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    unknown = [name for name in arguments if name not in by_name]
    if unknown and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return f"has no parameter {unknown[0]!r}; {did_you_mean(unknown[0], by_name)}"
    missing = [name for name, needed in by_name.items() if needed and name not in arguments]
    if missing:
        return f"needs {missing[0]!r}; add it to with"
    return f"cannot be called: {error}; see with"


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    """Await a result in a task of its own, since the function may cancel its task."""
    with only_errors():
        return await awaitable


def _task_context(context: Context) -> TaskContext:
    def emit(data: Any) -> None:
        event = checked(data, f"what task {context.path!r} emits")
        event = event if isinstance(event, dict) else {"value": event}
        context.run.bus.publish("custom", context.task.id, context.path, event)

    return TaskContext(
        attempt=context.attempt,
        idempotency_key=digest(context.run.turn, context.path),
        task=context.task.id,
        path=context.path,
        _state=context.state,
        _emit=emit,
    )
