"""Retries and timeouts of tasks, and the effect of failures and skipped tasks."""

from __future__ import annotations

import asyncio
import threading

import psycopg
import pytest

from lorebind_bindings import TaskContext
from lorebind_config.errors import TaskError, UsageError
from lorebind_knowledge.plumbing.bridge import run as run_blocking

from .workflow_helpers import (
    Declared,
    collection,
    flow,
    parallel,
    python,
    raises,
    run,
    says,
    statuses,
    task_fails,
    to,
    workflows,
)

AT_ONCE = {"attempts": 3, "backoff_ms": 0}


class Unavailable(Exception):  # noqa: N818
    """An error as HTTP clients raise it."""

    def __init__(self, status: int) -> None:
        self.status_code = status
        super().__init__(f"HTTP {status}")


class Flaky:
    """Work that fails several times before it succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.attempts: list[int] = []

    async def work(self, context: TaskContext) -> str:
        self.attempts.append(context.attempt)
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("cut off"),
        Unavailable(503),
        Unavailable(429),
        TimeoutError("slow"),
        psycopg.OperationalError("the connection is lost"),
    ],
)
async def test_outages_are_tried_again(error: Exception) -> None:
    """A lost connection, overload or timeout is retried; the result counts the attempts."""
    flaky = Flaky(error, error)
    result = await run(python("t", flaky.work, retry=AT_ONCE))
    assert (result.output, result.tasks["t"].attempts) == ("done", 3)
    assert flaky.attempts == [1, 2, 3]


@pytest.mark.parametrize("error", [ValueError("no"), Unavailable(404), KeyError("x")])
async def test_other_errors_are_not(error: Exception) -> None:
    """Errors that a retry cannot fix fail immediately."""
    flaky = Flaky(error)
    with task_fails(type(error)):
        await run(python("t", flaky.work, retry=AT_ONCE))
    assert flaky.attempts == [1]


async def test_without_retry_a_task_is_tried_once() -> None:
    """By default an outage fails the task; with `retry` it fails after the last attempt."""
    flaky = Flaky(ConnectionError())
    with task_fails(ConnectionError):
        await run(python("t", flaky.work))
    assert flaky.attempts == [1]
    flaky = Flaky(*[ConnectionError("cut off")] * 3)
    with task_fails(ConnectionError, "ConnectionError: cut off"):
        await run(python("t", flaky.work, retry=AT_ONCE))
    assert flaky.attempts == [1, 2, 3]


async def test_a_task_that_holds_others_is_tried_again() -> None:
    """A retry of a collection repeats the failed items, not the finished ones."""
    done: list[int] = []

    async def work(item: int) -> int:
        done.append(item)
        if done == [1, 2]:
            raise ConnectionError
        return item

    task = python("t", work, args={"item": "{{ .item }}"})
    result = await run(collection("c", [1, 2, 3], task, retry=AT_ONCE, max_workers=1))
    assert result.output == [1, 2, 3]
    assert (done, result.tasks["c"].attempts) == ([1, 2, 3, 2], 2)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_takes_too_long_fails() -> None:
    """The task is cancelled; the error names the limit, which applies to each attempt."""
    cancelled = []

    async def work(context: TaskContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(context.attempt)

    with task_fails(
        TimeoutError, r"'t' of workflow 'w' failed: TimeoutError: it took .* than 0.01 s"
    ):
        await run(python("t", work, timeout_seconds=0.01, retry={"attempts": 2, "backoff_ms": 0}))
    assert cancelled == [1, 2]


async def test_a_plain_function_that_takes_too_long() -> None:
    """The run does not wait for a sync function, although its thread cannot be stopped."""
    released = threading.Event()
    try:
        with task_fails(TimeoutError):
            await run(python("t", lambda: released.wait(60), timeout_seconds=0.01))
    finally:
        released.set()


async def test_a_timeout_around_others() -> None:
    """The timeout of a task applies to all its nested tasks together."""
    with task_fails(TimeoutError, "task 'p' .*TimeoutError: it took longer") as caught:
        await run(parallel("p", python("a", forever), python("b", says(1)), timeout_seconds=0.05))
    assert caught.value.path == "p"


async def test_an_error_of_ones_own_that_is_a_timeout() -> None:
    """A TimeoutError of the function itself is reported unchanged."""
    with task_fails(TimeoutError, "TimeoutError: mine"):
        await run(python("t", raises(TimeoutError("mine")), timeout_seconds=30))


class Stop(BaseException):
    """A signal of another library."""


class MuteError(Exception):
    """An error without a readable message."""

    def __str__(self) -> str:
        raise Stop


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (asyncio.CancelledError(), "RuntimeError: it raised CancelledError;"),
        (SystemExit(3), "RuntimeError: it tried to end the process: SystemExit: 3;"),
        (StopIteration(), "RuntimeError: .*StopIteration"),
        (GeneratorExit("so"), "RuntimeError: it raised GeneratorExit: so;"),
        (Stop("so"), "RuntimeError: it raised Stop: so;"),
        (BaseExceptionGroup("all", [Stop()]), "RuntimeError: it raised BaseExceptionGroup: all"),
        (MuteError(), r"MuteError: its message cannot be read, because str\(\) raised Stop;"),
        (ValueError("x" * 2**20), r"ValueError: x{2000} \[1044576 characters omitted\] x{2000};"),
    ],
)
@pytest.mark.parametrize("colour", ["async", "plain"])
async def test_exceptions_of_any_kind(error: BaseException, problem: str, colour: str) -> None:
    """Any exception fails its task with a short reason, and `on_error` applies."""

    async def fails() -> None:
        raise error

    function = fails if colour == "async" else raises(error)
    with pytest.raises(TaskError, match=f"^task 't' of workflow 'w' failed: {problem}"):
        await run(python("t", function))
    handled = python("t", function, on_success=to("end"), on_error=to("end"))
    result = await run(handled, python("end", says("ended"), final=True))
    assert (result.output, result.tasks["t"].status) == ("ended", "failed")


async def test_a_plain_function_that_raises_a_keyboard_interrupt() -> None:
    """It runs in a thread of its own, where it cannot be Ctrl-C, so a server continues."""
    with pytest.raises(TaskError, match="failed: RuntimeError: it raised KeyboardInterrupt;"):
        await run(python("t", raises(KeyboardInterrupt())))


async def test_a_function_that_cancels_its_task() -> None:
    """A function can cancel only itself, not the run."""

    async def cancels() -> None:
        this = asyncio.current_task()
        assert this is not None
        this.cancel()
        await asyncio.sleep(0)

    with pytest.raises(TaskError, match="it raised CancelledError"):
        await run(python("t", cancels))


def test_a_function_that_stops_the_event_loop() -> None:
    """A blocking run continues, and so do later ones, after a function stopped the event loop."""

    async def stops() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return "stopped"

    for _ in range(2):
        assert run_blocking(run(python("t", stops))).output == "stopped"


async def test_a_cancelled_run_can_be_resumed() -> None:
    """Cancelling a run cancels its tasks; finished tasks stay finished."""
    ran: list[str] = []
    blocked = asyncio.Event()

    async def first() -> None:
        ran.append("first")

    async def second() -> None:
        ran.append("second")
        if len(ran) == 2:
            blocked.set()
            await asyncio.Event().wait()

    flows = workflows(flow(python("a", first), parallel("p", python("b", second))))
    running = asyncio.create_task(flows.run("w", {}, thread_id="t"))
    await blocked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (info,) = await flows.threads("w")
    assert info.status == "interrupted"
    result = await flows.resume("w", "t")
    assert (result.status, ran) == ("completed", ["first", "second", "second"])


async def test_what_handles_an_error_sees_it() -> None:
    """`on_error` tasks and conditions can use task, type and message, also in `errors`."""
    error = {
        "task": "{{ .error.task }}",
        "type": "{{ .error.type }}",
        "said": "{{ .error.message }}",
    }
    seen = {"id": "seen", "type": "aggregate", "outputs": error}
    result = await run(
        python("bad", raises(ValueError("no")), on_success=to("end"), on_error=to("p")),
        parallel("p", seen, python("q", says(1), condition="error.type == 'KeyError'"), final=True),
        python("end", says(1), final=True),
        outputs={"p": "{{ .tasks.p.output }}", "errors": "{{ .state.errors }}"},
    )
    failure = {"task": "bad", "type": "ValueError", "said": "no"}
    assert result.output["p"] == {"seen": failure, "q": None}
    (error_told,) = result.output["errors"]
    assert error_told["path"] == "bad"
    assert statuses(result) == {
        "bad": "failed",
        "p": "completed",
        "seen": "completed",
        "q": "skipped",
        "end": "skipped",
    }
    assert result.tasks["bad"].error == error_told
    assert result.tasks["bad"].output is None


async def test_an_error_is_seen_behind_a_join() -> None:
    """A task that follows a failure and a success sees the error, in any order of both."""
    for names in (["bad", "good"], ["good", "bad"]):
        tasks = {
            "bad": python(
                "bad", raises(ValueError("no")), on_error=to("end"), on_success=to("end")
            ),
            "good": python("good", says(1), on_success=to("end")),
        }
        outputs = {"was": "{{ .error.message }}"}
        result = await run(
            python("start", says(1), on_success=to("bad", "good")),
            *(tasks[name] for name in names),
            {"id": "end", "type": "aggregate", "outputs": outputs, "final": True},
        )
        assert result.output == {"was": "no"}


async def test_a_failure_within_is_handled_outside() -> None:
    """A task fails if a nested task fails, and can handle the failure."""
    result = await run(
        collection("c", [1], python("t", raises(ValueError("no"))), on_error=to("e"), final=True),
        {"id": "e", "type": "aggregate", "outputs": {"x": "{{ .error.task }}"}, "final": True},
    )
    assert (result.output, statuses(result)["c"]) == ({"x": "t"}, "failed")


async def test_a_left_out_task_leads_on() -> None:
    """A task with a false condition is skipped with the output null; the next tasks run."""
    result = await run(
        python("a", says(1)),
        python("b", raises(ValueError()), condition="tasks.a.output > 1"),
        {"id": "c", "type": "aggregate", "outputs": {"b": "{{ .tasks.b.output }}"}},
    )
    assert result.output == {"b": None}
    assert (statuses(result)["b"], result.tasks["b"].attempts) == ("skipped", 0)


@pytest.mark.parametrize(
    ("condition", "problem"),
    [("tasks.a.output.x == 1", "tasks.a.output.x == 1"), ("tasks.a.output", "expected true or")],
)
async def test_a_condition_without_a_value_fails_its_task(condition: str, problem: str) -> None:
    """A condition without a value fails its task, and the failure can be handled."""
    bad = python("b", says(1), condition=condition, on_error=to("c"), on_success=to("c"))
    with task_fails(UsageError, f"task 'b' of workflow 'w' failed: condition .*{problem}"):
        await run(python("a", says(2)), python("b", says(1), condition=condition))
    result = await run(
        python("a", says(2), on_success=to("b")), bad, python("c", says(3), final=True)
    )
    assert result.output == 3


async def test_a_loop_is_stopped() -> None:
    """A run fails at the task after `max_steps` tasks, and names it."""
    counts = {"n": 0}

    async def count() -> int:
        counts["n"] += 1
        return counts["n"]

    def loop(rounds: int) -> list[Declared]:
        again = {
            "id": "again",
            "type": "router",
            "condition": f"tasks.count.output < {rounds}",
            "routes": {"true": "count", "false": "end"},
        }
        return [
            python("count", count, on_success=to("again")),
            again,
            python("end", says("end"), final=True),
        ]

    result = await run(*loop(10), max_steps=21)
    assert result.output == "end"
    counts["n"] = 0
    with task_fails(UsageError, "more than 20 tasks ran; end the loop, or raise max_steps"):
        await run(*loop(10), max_steps=20)
    assert counts["n"] == 10


async def test_a_key_names_the_work() -> None:
    """The key is the same for attempts and resumes, and differs by task, item, round and thread."""
    keys: list[str] = []
    fails = [ConnectionError(), ValueError("no")]

    async def work(context: TaskContext) -> None:
        keys.append(context.idempotency_key)
        if fails:
            raise fails.pop(0)

    flows = workflows(flow(python("t", work, retry=AT_ONCE)))
    with task_fails(ValueError):
        await flows.run("w", {}, thread_id="t")
    await flows.resume("w", "t")
    assert len(keys) == 3
    assert len(set(keys)) == 1
    items = collection("c", [1, 2], python("i", work))
    flows = workflows(flow(python("t", work), items, parallel("p", python("b", work))))
    await flows.run("w", {}, thread_id="t")
    await flows.run("w", {}, thread_id="t")
    await flows.run("w", {}, thread_id="u")
    assert len(set(keys)) == 1 + 3 * 4
