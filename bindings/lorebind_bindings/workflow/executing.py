"""Execution of one task: its condition, its attempts, and its record.

The record is stored before any event reports the result.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lorebind_bindings.workflow.answers import passed_key
from lorebind_bindings.workflow.caching import cached, remember
from lorebind_bindings.workflow.observing import task_run
from lorebind_bindings.workflow.results import Done, Outcome, Update
from lorebind_bindings.workflow.running import NotKept, Suspended, TaskFailed, keep
from lorebind_bindings.workflow.state import checked
from lorebind_config.checks.conditions import compile_condition
from lorebind_config.checks.template_checks import unset_variables
from lorebind_config.errors import LorebindError, MissingVariableError, UsageError
from lorebind_config.templates import UnsetVariableError
from lorebind_knowledge.plumbing.bridge import only_errors
from lorebind_knowledge.resilience.failures import classify
from lorebind_knowledge.resilience.retries import Retries

if TYPE_CHECKING:
    from lorebind_bindings.workflow.running import Context


async def execute(context: Context) -> Done:
    """Run a task unless it has ended before. The result is stored before it is returned.

    Raises:
        TaskFailed: the task failed and has no `on_error`; the failure is stored too.
        Suspended: the task waits for an answer, or the run is paused before it.
        NotKept: the record could not be written.
    """
    run, task, path = context.run, context.task, context.path
    if (ended := _ended(context)) is not None:
        return ended
    if task.id in run.interrupt_before and passed_key(path) not in run.journal.records:
        raise Suspended(paused=[path])
    unhandled: TaskFailed | Suspended | None = None
    with task_run(context) as observed:
        try:
            done, unhandled = await _executed(context)
        except Suspended as suspended:  # no failure
            observed.data["status"], unhandled = "waiting", suspended
        else:
            is_handled = done.error is not None and unhandled is None
            observed.data["status"] = "handled" if is_handled else done.status
            observed.data["attempts"] = done.attempts
            if done.error is not None:
                observed.fail(done.error["type"])
    if unhandled is not None:
        raise unhandled
    return done


async def _executed(context: Context) -> tuple[Done, TaskFailed | None]:
    """Run a task, store its record and emit its events; return its failure if none handles it."""
    run, task, path = context.run, context.task, context.path
    began, unhandled = time.monotonic(), None
    try:
        if await _is_left_out(context):
            done = Done(path, "skipped", Outcome(), attempts=0)
        else:
            attempts, outcome = await _tried(context)
            done = Done(path, "completed", outcome, attempts=attempts)
    except TaskFailed as failed:
        # `within` belongs to this task, not to the tasks around it.
        within, failed.within = failed.within or Outcome(), None
        done = Done(path, "failed", within, failed.error, failed.attempts)
        if task.on_error is None:
            unhandled = failed
        else:
            done.outcome.updates = [Update("errors", failed.error, path)]
    done.seconds = round(time.monotonic() - began, 4)
    done.at = datetime.now(UTC).isoformat(timespec="milliseconds")
    done.step = len(run.journal.records)
    # Stored before the event: what `task_end` reports is there even after a crash.
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
    return done, unhandled


def _ended(context: Context) -> Done | None:
    """Return the stored result of a task; None for a task that is to run, possibly again.

    Raises:
        TaskFailed: the task failed and an outer task handles its failure. It is not run again,
            because another attempt could change the result of the run.
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
    """Check whether the task's condition is false; the condition of a router selects a route."""
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
    """Return the number of attempts and the outcome of the last one."""
    attempts = 0

    async def attempt() -> Outcome:
        nonlocal attempts
        attempts += 1
        try:
            return await _once(replace(context, attempt=attempts))
        except TaskFailed as failed:
            failed.attempts = attempts
            raise

    retries = Retries(
        limits=context.task.retry,
        on=TaskFailed,
        classify=lambda failed: classify(failed.cause),
        before_wait=lambda failed, wait: context.emit(
            "task_retry", attempt=failed.attempts, error=failed.error, wait_seconds=wait
        ),
    )
    context.emit("task_start", attempt=1)
    outcome = await retries.call(attempt)
    return attempts, outcome


async def _once(context: Context) -> Outcome:
    """Run one attempt; errors of the task's own work become a TaskFailed."""
    task = context.task
    try:
        async with asyncio.timeout(task.timeout_seconds) as limit:
            outcome = cached(context)
            if outcome is None:
                with only_errors():
                    outcome = await context.run.work[getattr(task, task.kind_key)](context)
                outcome.output = checked(outcome.output, f"the output of task {context.path!r}")
                remember(context, outcome)
        outcome.updates = [*outcome.updates, *_updates(context, outcome.output)]
        context.take(outcome.updates)
    except (Suspended, TaskFailed, NotKept):
        raise
    except TimeoutError as error:
        tries = task.retry.attempts
        which = f" in attempt {context.attempt} of {tries}" if tries > 1 else ""
        late = TimeoutError(
            f"it took longer than {task.timeout_seconds} s{which}; raise timeout_seconds"
        )
        # If the limit has not expired, the work of the task has raised the error.
        raise failure(context, late if limit.expired() else error) from error
    except Exception as error:  # project functions, models and searches raise anything
        raise failure(context, _explained(context, error)) from error
    return outcome


def _explained(context: Context, error: Exception) -> Exception:
    """Return the error; replace one that does not say where its cause is, or what to do instead."""
    from langgraph.errors import GraphBubbleUp

    if isinstance(error, UnsetVariableError):
        for declared in (context.task, context.frame.workflow):
            unset = unset_variables(declared, context.run.environment)
            if named := [problem for problem in unset if problem.message == error.message]:
                return MissingVariableError(named)
    if not isinstance(error, GraphBubbleUp):
        return error
    return UsageError(
        "LangGraph interrupts cannot suspend a task; ask in a separate task before it: "
        "{ id: ask, type: wait, prompt: ... }"
    )


def _updates(context: Context, output: Any) -> list[Update]:
    """Return the values that the task's `update` writes into channels."""
    if not context.task.update:
        return []
    values = context.fill(dict(context.task.update), output=output)
    return [Update(name, value, context.path) for name, value in values.items()]


def failure(context: Context, error: Exception) -> TaskFailed:
    """Return a task's error in the form that `on_error` and users see."""
    message = context.run.message(error)
    details = {
        "task": context.task.id,
        "path": context.path,
        "type": type(error).__name__,
        "message": message,
    }
    for suggestion in getattr(error, "suggestions", ()):
        if suggestion.command in message:
            details["command"] = suggestion.command
    return TaskFailed(details, error)
