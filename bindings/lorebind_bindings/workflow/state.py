"""The state that tasks share: plain JSON in channels, and how updates change them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lorebind_config.checks.named_code import named_part
from lorebind_config.errors import UsageError, did_you_mean
from lorebind_config.redaction import redacted_message
from lorebind_knowledge.plumbing.bridge import only_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lorebind_bindings.workflow.results import Update
    from lorebind_config.declarations.workflows import WorkflowDeclaration
    from lorebind_config.templates import Environment

    Reducer = Callable[[Any, Any], Any]

_MAX_DEPTH = 200
"""Maximum depth of nested lists and mappings; also stops values that contain themselves."""
_MAX_BITS = 14_000
"""Maximum size of an integer: Python writes and reads at most 4300 digits by default."""


def checked(value: Any, what: str) -> Any:
    """Return a value as plain JSON, with tuples as lists.

    Raises:
        UsageError: the value is not JSON; the message names the location within it.
    """
    return _checked(value, what, ())


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def _checked(value: Any, what: str, path: tuple[str | int, ...]) -> Any:
    if len(path) > _MAX_DEPTH:
        _refuse(what, path[:3], f"lists and mappings nested deeper than {_MAX_DEPTH}")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        _refuse(what, path, f"an integer of more than {_MAX_BITS:,} bits")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        _refuse(what, path, f"the number {value}")
    if isinstance(value, list | tuple):
        return [_checked(item, what, (*path, at)) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        _refuse(what, path, f"a value of type {type(value).__name__}")
    for key in value:
        if not isinstance(key, str):
            _refuse(what, path, f"a mapping with the key {key!r} of type {type(key).__name__}")
    return {key: _checked(item, what, (*path, key)) for key, item in value.items()}


def _refuse(what: str, path: tuple[str | int, ...], problem: str) -> None:
    at = "".join(f"[{step!r}]" for step in path)
    place = f" at {at}" if at else ""
    raise UsageError(
        f"{what} is not JSON{place}: {problem}; expected text, a number, a boolean, null, a list "
        "or a mapping with text keys"
    )


State = dict[str, Any]
"""The value of each channel."""


class ChannelError(UsageError):
    """A channel rejects a value that the task at `path` wrote."""

    def __init__(self, message: str, path: str) -> None:
        self.path = path
        super().__init__(message)


class Channels:
    """The channels of a workflow, with their reducers."""

    def __init__(self, declared: WorkflowDeclaration, environment: Environment) -> None:
        """
        Raises:
            UsageError: a reducer cannot be imported, or is not a function.
        """
        self._declared = declared
        self._reducers: dict[str, Sequence[Reducer]] = {}
        for name, channel in declared.channels.items():
            self._reducers[name] = [
                named_part(channel, environment, ("reducers", index))
                for index in range(len(channel.reducers))
            ]

    def start(self, earlier: Mapping[str, Any] | None = None) -> State:
        """Return the state before the first task, with `messages` and `extra` of earlier turns."""
        earlier = earlier or {}
        declared = {name: channel.default for name, channel in self._declared.channels.items()}
        return {
            **declared,
            "messages": earlier.get("messages") or [],
            "extra": earlier.get("extra") or {},
            "errors": [],
        }

    def check(self, name: str) -> None:
        """Check that a channel exists.

        Raises:
            UsageError: there is no such channel.
        """
        names = {*_OWN, *self._reducers}
        if name not in names:
            raise UsageError(f"there is no channel {name!r}; {did_you_mean(name, names)}")

    def is_shared(self, name: str) -> bool:
        """Check whether concurrent tasks may write a channel."""
        return name in _OWN or bool(self._reducers[name])

    def updated(self, state: State, updates: Iterable[Update]) -> State:
        """Return the state after some updates, applied in their order.

        Raises:
            UsageError: an update does not have the form that its channel accepts, or a reducer
                returns a value that is not JSON.
        """
        before, state = state, dict(state)
        writers: dict[str, str] = {}
        built_in: dict[str, list[Any]] = {}
        for update in updates:
            name = update.channel
            if name in _OWN:
                built_in.setdefault(name, []).append(copied(update.value))
                continue
            if name not in writers:
                state[name] = copied(before[name])  # a reducer may change its arguments
            writers[name] = update.path
            state[name] = self._reduced(state[name], update)
        for name, path in writers.items():
            state[name] = checked(state[name], f"channel {name!r} after task {path!r}")
        for name, values in built_in.items():
            state[name] = _OWN[name](state[name], values)
        return state

    def _reduced(self, value: Any, update: Update) -> Any:
        name = update.channel
        if not self._reducers[name]:
            return update.value
        for reduce in self._reducers[name]:
            try:
                with only_errors():
                    value = reduce(value, copied(update.value))
            except UsageError:
                raise
            except Exception as error:  # reducers of the project raise anything
                raise ChannelError(
                    f"channel {name!r} does not accept what task {update.path!r} wrote: "
                    + redacted_message(error),
                    update.path,
                ) from error
        return value

    def refuse_two(self, name: str, first: str, other: str) -> None:
        """Reject concurrent writes to a channel.

        Raises:
            ChannelError: two concurrent tasks wrote a channel that has no reducer.
        """
        raise ChannelError(
            f"tasks {first!r} and {other!r} both write channel {name!r}, and neither runs before "
            "the other; declare how to combine them: "
            f"channels: {{ {name}: {{ reducers: [...] }} }}",
            other,
        )

    def side_by_side(self, groups: Iterable[Sequence[Update]]) -> list[Update]:
        """Return the updates of concurrent tasks, group after group.

        Raises:
            UsageError: two groups write a channel that has no reducer.
        """
        writers: dict[str, str] = {}
        every: list[Update] = []
        for group in groups:
            paths = {update.channel: update.path for update in group}
            for name, path in paths.items():
                if name in writers and not self.is_shared(name):
                    self.refuse_two(name, writers[name], path)
            writers |= paths
            every += group
        return every


def _listed(updates: Iterable[Any]) -> list[Any]:
    """Return the items that updates add to a list: each update is one item or a list of them."""
    return [
        item for update in updates for item in (update if isinstance(update, list) else [update])
    ]


def _by_id(messages: list[Any], updates: Iterable[Any]) -> list[Any]:
    """Append messages; one with the id of an earlier message replaces it."""
    places = {message["id"]: at for at, message in enumerate(messages) if "id" in message}
    messages = list(messages)
    for message in _listed(updates):
        if not isinstance(message, dict):
            raise UsageError(
                "channel 'messages' takes mappings with `role` and `content`, got a "
                f"{type(message).__name__}"
            )
        if not isinstance(message.get("id"), str | int | None):
            kind = type(message["id"]).__name__
            raise UsageError(f"channel 'messages' takes messages whose `id` is text, got a {kind}")
        at = places.get(message.get("id"))
        if at is None:
            if "id" in message:
                places[message["id"]] = len(messages)
            messages.append(message)
        else:
            messages[at] = message
    return messages


def _merged(extra: dict[str, Any], updates: Iterable[Any]) -> dict[str, Any]:
    """Merge mappings; null deletes a key. Like RFC 7396, but only for the first level."""
    merged = dict(extra)
    for update in updates:
        if not isinstance(update, dict):
            raise UsageError(f"channel 'extra' takes a mapping, got a {type(update).__name__}")
        merged |= update
    return {name: value for name, value in merged.items() if value is not None}


def _appended(errors: list[Any], updates: Iterable[Any]) -> list[Any]:
    return [*errors, *_listed(updates)]


_OWN: dict[str, Callable[[Any, Iterable[Any]], Any]] = {
    "messages": _by_id,
    "extra": _merged,
    "errors": _appended,
}
"""The functions with which the built-in channels apply all their updates together."""


@dataclass(frozen=True, slots=True)
class Write:
    """The updates of one execution, and its position among the executions."""

    level: int
    """Length of the longest chain of executions that led to it."""
    number: int
    """The position of the task in its flow."""
    bit: int
    before: int
    """The executions that led to it, as a bit set."""
    updates: tuple[Update, ...]


def in_order(writes: Iterable[Write]) -> tuple[Write, ...]:
    """Sort writes in the order in which they led to each other, concurrent ones by their tasks."""
    return tuple(sorted(writes, key=lambda write: (write.level, write.number)))


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """The executions and writes before a task, as the task sees them."""

    outputs: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    """The level and output of the last execution of each task."""
    blocks: Mapping[str, str] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    seen: int = 0
    """The executions as a bit set."""
    level: int = 0
    states: list[State] = field(default_factory=list, compare=False)
    """The state, empty until it is first computed."""

    def state(self, channels: Channels, start: State) -> State:
        """Return the channels after all updates. The result must not be changed.

        Args:
            channels: the channels of the workflow.
            start: their state before the first task of the flow.

        Raises:
            UsageError: as for `updates`.
        """
        if not self.states:
            self.states.append(channels.updated(start, self.updates(channels)))
        return self.states[0]

    @classmethod
    def of_all(cls, pasts: Sequence[TaskHistory]) -> TaskHistory:
        """Merge the pasts of several tasks that lead to the same task."""
        if len(pasts) == 1:
            return pasts[0]
        outputs: dict[str, tuple[int, Any]] = {}
        for past in pasts:
            for name, output in past.outputs.items():
                if name not in outputs or outputs[name][0] < output[0]:
                    outputs[name] = output
        writes = {write.bit: write for past in pasts for write in past.writes}
        seen = 0
        for past in pasts:
            seen |= past.seen
        return cls(
            outputs,
            {name: text for past in pasts for name, text in past.blocks.items()},
            in_order(writes.values()),
            seen,
            max((past.level for past in pasts), default=0),
        )

    def updates(self, channels: Channels) -> list[Update]:
        """Return all updates, in order.

        Raises:
            UsageError: two concurrent executions write a channel without a reducer.
        """
        last: dict[str, tuple[Write, Update]] = {}
        every = []
        for write in self.writes:
            for update in write.updates:
                name = update.channel
                if not channels.is_shared(name):
                    if name in last and not (last[name][0].bit & (write.before | write.bit)):
                        channels.refuse_two(name, last[name][1].path, update.path)
                    last[name] = write, update
                every.append(update)
        return every
