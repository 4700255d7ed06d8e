"""One task: its condition, its tries, and its record, durable before anybody hears of it."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.answers import passed_key
from lorebind_bindings.workflow.caching import cached, remember
from lorebind_bindings.workflow.json_values import checked
from lorebind_bindings.workflow.results import Done, Outcome, Update
from lorebind_bindings.workflow.running import NotKept, Suspended, TaskFailed, keep
from lorebind_knowledge.configuration.conditions import compile_condition
from lorebind_knowledge.embedders.failures import classify
from lorebind_knowledge.embedders.pacing import backoff
from lorebind_knowledge.errors import LorebindError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lorebind_bindings.workflow.running import Context
    from lorebind_knowledge.declarations import TaskBase


async def execute(context: Context) -> Done:
    """Run a task, unless it has ended before; what is returned is durable.

    Raises:
        TaskFailed: it failed, and says nothing of errors; that is durable too.
        Suspended: it waits, or the run is paused before it.
        NotKept: its record could not be written.
    """
    run, task, path = context.run, context.task, context.path
    if (ended := _ended(context)) is not None:
        return ended
    if task.id in run.interrupt_before and passed_key(path) not in run.journal.records:
        raise Suspended(paused=[path])
    began, unhandled = time.monotonic(), None
    try:
        if await _is_left_out(context):
            done = Done(path, "skipped", Outcome(), attempts=0)
        else:
            attempts, outcome = await _tried(context)
            done = Done(path, "completed", outcome, attempts=attempts)
    except TaskFailed as failed:
        within, failed.within = failed.within or Outcome(), None  # that of this task, not around
        done = Done(path, "failed", within, failed.error, failed.attempts)
        if task.on_error is None:
            unhandled = failed
        else:
            done.outcome.updates = [Update("errors", failed.error, path)]
    done.seconds = round(time.monotonic() - began, 4)
    done.at = datetime.now(UTC).isoformat(timespec="milliseconds")
    done.step = len(run.journal.records)
    await keep(run, done.as_json())
    if done.status == "skipped":
        context.emit("task_skipped", reason="condition")
    else:
        more = {"error": done.error} if done.error else {}
        context.emit(
            "task_end",
            status="handled" if done.error and not unhandled else done.status,
            output=done.outcome.output,
            seconds=done.seconds,
            attempts=done.attempts,
            **more,
        )
    if unhandled is not None:
        raise unhandled
    return done


def _ended(context: Context) -> Done | None:
    """What a task gave that has ended before; None for one that is to run, maybe once more.

    Raises:
        TaskFailed: it failed, and what is around it handles that: another try could give the run
            another result.
    """
    record = context.run.journal.records.get(context.path)
    if record is None:
        return None
    done = Done.from_json(record)
    if done.error is None or context.task.on_error is not None:
        return done
    if not context.frame.failures_are_final:
        return None
    failed = TaskFailed(done.error, RuntimeError(done.error["message"]))
    failed.attempts = done.attempts
    raise failed


async def _is_left_out(context: Context) -> bool:
    """Whether the task's condition is false; a router's chooses its route."""
    task = context.task
    if task.condition is None or task.type == "router":
        return False
    try:
        return not compile_condition(task.condition).truth(
            context.values(), context.frame.converted
        )
    except LorebindError as error:
        raise failure(context, error) from error


async def _tried(context: Context) -> tuple[int, Outcome]:
    """How often it was tried, and what the task gave in the end."""
    task = context.task
    context.emit("task_start", attempt=1)
    for attempt in range(1, task.retry.attempts + 1):
        context = replace(context, attempt=attempt)
        try:
            return attempt, await _once(context)
        except TaskFailed as failed:
            failed.attempts = attempt
            if attempt == task.retry.attempts or not _is_transient(failed.cause):
                raise
            wait = backoff(task.retry, attempt, None, random.random())
            context.emit("task_retry", attempt=attempt, error=failed.error, wait_seconds=wait)
            await asyncio.sleep(wait)
    raise AssertionError("a task is tried at least once")


def _is_transient(cause: BaseException) -> bool:
    """Whether an error is an outage or a timeout, which another try may not meet."""
    return classify(cause, time.time()).kind == "again"


async def _once(context: Context) -> Outcome:
    """One try.

    Raises:
        TaskFailed: whatever the task's own work raised.
    """
    task = context.task
    try:
        async with asyncio.timeout(task.timeout_seconds) as limit:
            outcome = cached(context)
            if outcome is None:
                outcome = await _work_of(task)(context)
                outcome.output = checked(outcome.output, f"the output of task {context.path!r}")
                remember(context, outcome)
        outcome.updates = [*outcome.updates, *_updates(context, outcome.output)]
        context.take(outcome.updates)
    except (Suspended, TaskFailed, NotKept):
        raise
    except asyncio.CancelledError as error:
        if (this := asyncio.current_task()) is None or this.cancelling():
            raise
        # Something that it waited for was cancelled; nobody has cancelled the run.
        raise failure(context, RuntimeError("what it waited for was cancelled")) from error
    except TimeoutError as error:
        tries = task.retry.attempts
        which = f" in attempt {context.attempt} of {tries}" if tries > 1 else ""
        late = TimeoutError(
            f"it took longer than {task.timeout_seconds} s{which}; raise timeout_seconds"
        )
        raise failure(context, late if limit.expired() else error) from error
    except Exception as error:  # whatever functions of a project, models and searches raise
        raise failure(context, _explained(error)) from error
    return outcome


def _explained(error: Exception) -> Exception:
    """The error, or what to do instead of what it is a signal of."""
    from langgraph.errors import GraphBubbleUp

    if not isinstance(error, GraphBubbleUp):
        return error
    return UsageError(
        "LangGraph's interrupts cannot stop a task; ask in a task of its own before it: "
        "{ id: ask, type: wait, prompt: ... }"
    )


def _work_of(task: TaskBase) -> Callable[[Context], Awaitable[Outcome]]:
    """What a task of this kind does; its module is named after it, and loaded when it is used."""
    kind = getattr(task, task.kind_key)
    module = import_module(f"lorebind_bindings.workflow.tasks.{kind}")
    work: Callable[[Context], Awaitable[Outcome]] = module.work
    return work


def _updates(context: Context, output: Any) -> list[Update]:
    """What the declaration writes into channels."""
    if not context.task.update:
        return []
    values = context.fill(dict(context.task.update), output=output)
    return [Update(name, value, context.path) for name, value in values.items()]


def failure(context: Context, error: Exception) -> TaskFailed:
    """A task's error, as `on_error` and users see it."""
    message = context.run.said(error)
    told = {
        "task": context.task.id,
        "path": context.path,
        "type": type(error).__name__,
        "message": message,
    }
    return TaskFailed(told, error)
