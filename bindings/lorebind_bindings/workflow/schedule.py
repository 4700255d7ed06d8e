"""Run a list of tasks along its graph; each starts when the tasks that lead to it have ended."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.executing import execute
from lorebind_bindings.workflow.joins import Tokens
from lorebind_bindings.workflow.results import skipped
from lorebind_bindings.workflow.running import Context, Suspended, TaskFailed
from lorebind_bindings.workflow.state import ChannelError, TaskHistory, Write, in_order
from lorebind_config.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lorebind_bindings.workflow.results import Done, Update
    from lorebind_bindings.workflow.running import Frame, Run
    from lorebind_bindings.workflow.state import State
    from lorebind_config.declarations.flow import Flow
    from lorebind_config.declarations.tasks import TaskBase


@dataclass(frozen=True, slots=True)
class FlowResult:
    """The result of a list of tasks."""

    tasks: dict[str, Done]
    """The records by id; the last one for a task that ran several times."""
    output: Any
    """The output of the last task that ran and took no edge."""
    updates: list[Update]
    state: State
    """The state after all tasks."""


async def run_flow(run: Run, frame: Frame, tasks: Sequence[TaskBase]) -> FlowResult:
    """Run the tasks of a workflow, a branch or an item.

    Raises:
        TaskFailed: a task failed and has no `on_error`. Tasks that ran at the same time have
            ended. Also raised for more than `max_steps` tasks, and for two tasks that write a
            channel without a reducer.
        Suspended: some tasks wait for answers, and the others cannot continue without them.
    """
    flow = run.parts.flow(tasks)
    outputs = {**frame.outputs, **dict.fromkeys(flow.names)}
    return await _FlowRun(run, replace(frame, outputs=outputs), flow).to_its_end()


@dataclass(frozen=True, slots=True)
class _Token:
    """A token for an edge that was taken."""

    past: TaskHistory
    output: Any = None
    """The output of the task at the start of the edge."""
    number: int = -1
    """The position of that task in the flow."""
    error: dict[str, str] | None = None


class _FlowRun:
    def __init__(self, run: Run, frame: Frame, flow: Flow) -> None:
        self.run, self.frame, self.flow = run, frame, flow
        self.tokens: Tokens[_Token] = Tokens(flow)
        self.running: dict[asyncio.Task[Done], tuple[str, TaskHistory]] = {}
        self.steps = 0
        self.done: dict[str, Done] = {}
        self.ended: list[str] = []
        """The tasks that took no edge."""
        self.writes: list[Write] = []
        self.failures: list[TaskFailed] = []
        self.suspended: dict[str, Suspended] = {}

    async def to_its_end(self) -> FlowResult:
        self.tokens.enter(_Token(TaskHistory()))
        try:
            while True:
                # After a failure, no task starts, but running ones end: their results are stored.
                if not self.failures:
                    for name in self.tokens.ready():
                        self._start(name)
                if not self.running:
                    break
                ended, _ = await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
                for finished in ended:
                    self._end(finished)
                self._skip()
        finally:
            await _cancelled(self.running)
        if self.failures:
            # The same error in every run, whichever task fails first.
            raise min(self.failures, key=lambda failed: failed.error["path"])
        if self.suspended:
            raise Suspended.all_of(
                [self.suspended[name] for name in self.flow.names if name in self.suspended]
            )
        try:
            return self._result()
        except ChannelError as error:
            # The path `answers[3].draft#2` belongs to the task `draft`.
            task = re.split(r"[#\[]", error.path.rpartition(".")[2])[0]
            raise _failure(task, error.path, error) from error

    def _start(self, name: str) -> None:
        self.steps += 1
        limit = self.frame.workflow.max_steps
        # By their place in the flow, not by time: a join sees the same `output` in every run.
        arrived = sorted(self.tokens.start(name), key=lambda token: token.number)
        task, past = self.flow.tasks[name], TaskHistory.of_all([token.past for token in arrived])
        path = f"{self.frame.prefix}{name}"
        if (again := self.tokens.rounds[name]) > 1:
            path = f"{path}#{again}"
        errors = [token.error for token in arrived if token.error is not None]
        context = Context(
            self.run,
            self.frame,
            task,
            path,
            past,
            led_by=arrived[-1].output,
            error=errors[-1] if errors else None,
        )
        if self.steps > limit:
            message = f"more than {limit} tasks ran; end the loop, or raise max_steps"
            self.failures.append(_failure(name, path, UsageError(message)))
            return
        self.running[asyncio.create_task(execute(context))] = name, past

    def _end(self, ended: asyncio.Task[Done]) -> None:
        name, past = self.running.pop(ended)
        if ended.cancelled():
            raise asyncio.CancelledError
        match ended.exception():
            case None:
                self._take_edges(name, past, ended.result())
            case TaskFailed() as failed:
                self.failures.append(failed)
            case Suspended() as suspended:
                self.suspended[name] = suspended  # the tasks that it leads to keep waiting
            case error:
                raise error

    def _take_edges(self, name: str, past: TaskHistory, done: Done) -> None:
        self.done[name] = done
        after = self._after(name, past, done)
        failed = done.status == "failed"
        field = "on_error" if failed else done.outcome.route or "on_success"
        token = _Token(after, done.outcome.output, self.flow.number[name], done.error)
        edges = self.flow.after(name, field)
        for edge in edges:
            self.tokens.take(edge, token)
        if not edges:
            self.ended.append(name)
        self.tokens.end(name)

    def _after(self, name: str, past: TaskHistory, done: Done) -> TaskHistory:
        """Return what the tasks that follow a task see as their past."""
        number, rounds = self.flow.number[name], self.tokens.rounds[name]
        # One bit for each task in each round of a loop.
        bit = 1 << ((rounds - 1) * len(self.flow.names) + number)
        writes, states = past.writes, past.states
        if updates := done.outcome.updates:
            write = Write(past.level, number, bit, past.seen, tuple(updates))
            writes = (*writes, write)
            self.writes.append(write)
            # Apply only the new updates, so that the cost per round of a loop stays constant.
            states = [self.frame.channels.updated(state, updates) for state in states]
        return TaskHistory(
            {**past.outputs, name: (past.level, done.outcome.output)},
            {**past.blocks, **done.outcome.blocks},
            writes,
            past.seen | bit,
            past.level + 1,
            states,
        )

    def _skip(self) -> None:
        if self.failures or self.suspended:  # a task that waits may still lead to them
            return
        for name in self.tokens.skipped():
            path = f"{self.frame.prefix}{name}"
            self.done[name] = skipped(path)
            self.run.bus.emit("task_skipped", name, path, reason="route")

    def _result(self) -> FlowResult:
        everything = TaskHistory(writes=in_order(self.writes))
        updates = everything.updates(self.frame.channels)
        ran = [name for name in self.ended if self.done[name].status != "skipped"] or self.ended
        last = max(ran, key=self.flow.number.__getitem__)
        return FlowResult(
            {name: self.done[name] for name in self.flow.names if name in self.done},
            self.done[last].outcome.output,
            updates,
            self.frame.channels.updated(self.frame.state, updates),
        )


def _failure(task: str, path: str, error: UsageError) -> TaskFailed:
    kind = type(error).__name__
    return TaskFailed({"task": task, "path": path, "type": kind, "message": str(error)}, error)


async def _cancelled(running: dict[asyncio.Task[Done], tuple[str, TaskHistory]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def run_tasks(run: Run, frame: Frame) -> FlowResult:
    """Run all tasks of the frame's workflow, see `run_flow`."""
    return await run_flow(run, frame, frame.workflow.tasks)


def outputs_of(run: Run, frame: Frame, result: FlowResult) -> Any:
    """Return the declared outputs by name; the output of the last task that ran if there are none.

    Raises:
        TemplateError: an output names something that a task did not return.
    """
    declared = frame.workflow
    if not declared.outputs:
        return result.output
    outputs = {name: (0, done.outcome.output) for name, done in result.tasks.items()}
    blocks = {
        name: text for done in result.tasks.values() for name, text in done.outcome.blocks.items()
    }
    context = Context(run, frame, None, declared.id, TaskHistory(outputs, blocks))
    return context.fill(dict(declared.outputs), state=result.state)
