"""Runs that are read as streams, to the end or not."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from contextlib import aclosing, closing, suppress
from typing import Any

import pytest

from lorebind_bindings.workflow.events import RunEvent
from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_bindings.workflow.events.sinks import MemorySink
from lorebind_bindings.workflow.results import RunResult
from lorebind_bindings.workflow.run_stream import RunStream
from lorebind_config.errors import ModelError, TaskError, UsageError
from lorebind_knowledge.plumbing.bridge import run
from tests.processes import run_program


class Run:
    """A run of some short tasks that emits the same events as the scheduler."""

    def __init__(
        self, tasks: int = 5, *, pause: float = 0.001, fails: Exception | None = None
    ) -> None:
        self.tasks, self.pause, self.fails = tasks, pause, fails
        self.status = ""
        self.cleaned_up = False
        self.sink = MemorySink()

    async def __call__(self, bus: EventBus) -> RunResult:
        self.status = "running"
        bus.attach([self.sink])
        bus.emit("run_start", workflow="w", resumed=False, inputs=[])
        try:
            for number in range(self.tasks):
                bus.emit("task_start", f"t{number}", f"t{number}", attempt=1)
                await asyncio.sleep(self.pause)
            if self.fails is not None:
                raise self.fails
            self.status = "completed"
        except BaseException as error:
            self.status = "failed" if isinstance(error, Exception) else "cancelled"
            raise
        finally:
            bus.emit("run_end", status=self.status, seconds=0)
            await bus.close()
            await asyncio.sleep(0)
            self.cleaned_up = True
        return RunResult("done", {}, [], bus.thread_id, {})


async def aread(stream: RunStream) -> list[RunEvent]:
    return [event async for event in stream]


def read(stream: RunStream) -> list[RunEvent]:
    return list(stream)


async def in_a_thread(stream: RunStream) -> list[RunEvent]:
    return await asyncio.to_thread(read, stream)


READERS = pytest.mark.parametrize("reader", [aread, in_a_thread])


@READERS
async def test_read_to_the_end(reader: Any) -> None:
    """All events come in order, and then the result is available."""
    began = Run()
    stream = RunStream(began, "t1")
    assert not began.status
    with pytest.raises(UsageError, match="read the stream to its end first"):
        _ = stream.result
    events = await reader(stream)
    assert [event.seq for event in events] == list(range(1, 8))
    assert (events[0].type, events[-1].type) == ("run_start", "run_end")
    assert {event.thread_id for event in events} == {stream.thread_id} == {"t1"}
    assert stream.result.output == "done"
    assert began.sink.events == events
    assert [health.written for health in stream.health] == [7]
    with pytest.raises(UsageError, match="a stream can be read only once"):
        await reader(stream)


async def test_a_thread_of_its_own() -> None:
    """Without an id, the stream has a new thread, and the run uses it."""
    first, other = RunStream(Run()), RunStream(Run())
    await aread(first)
    assert first.result.thread_id == first.thread_id != other.thread_id


async def test_events_come_while_the_run_goes_on() -> None:
    """The first event is received long before the last."""
    began = Run(2, pause=0.2)
    statuses = {event.type: began.status async for event in RunStream(began)}
    assert statuses["run_start"] == "running"


@READERS
async def test_a_run_that_fails(reader: Any) -> None:
    """The error of the run is raised after the last event, and by `result` too."""
    error = TaskError("task t1 failed", task="t1", path="t1")
    began = Run(fails=error)
    stream = RunStream(began)
    with pytest.raises(TaskError) as caught:
        await reader(stream)
    assert caught.value is error
    with pytest.raises(TaskError) as caught:
        _ = stream.result
    assert caught.value is error
    assert began.sink.events[-1].data["status"] == "failed"


async def test_the_error_comes_last() -> None:
    """All events before an error are read first."""
    events = aiter(RunStream(Run(1, fails=ModelError("down"))))
    seen = [(await anext(events)).type for _ in range(3)]
    assert seen == ["run_start", "task_start", "run_end"]
    with pytest.raises(ModelError, match="down"):
        await anext(events)


@READERS
async def test_a_run_that_never_begins(reader: Any) -> None:
    """An error before the first event is raised too, and the reader does not hang."""

    async def refused(bus: EventBus) -> RunResult:
        raise UsageError("no such input")

    with pytest.raises(UsageError, match="no such input"):
        await asyncio.wait_for(reader(RunStream(refused)), 10)


@READERS
async def test_a_refused_run_with_a_slow_sink(reader: Any) -> None:
    """The reader ends before a slow sink does, and still gets the error of the run."""

    class Slow(MemorySink):
        def close(self) -> None:
            time.sleep(0.1)

    async def refused(bus: EventBus) -> RunResult:
        bus.attach([Slow()])
        raise UsageError("no such input")

    with pytest.raises(UsageError, match="no such input"):
        await reader(RunStream(refused))


async def test_a_run_that_fails_while_it_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    """If a run fails while it is cancelled, neither the reader nor the event loop's log sees it."""

    async def fails(bus: EventBus) -> RunResult:
        bus.emit("custom")
        try:
            await asyncio.sleep(60)
        finally:
            raise ModelError("down")

    stream = RunStream(fails)
    async with aclosing(aiter(stream)) as events:  # type: ignore[type-var]
        await anext(events)
    del stream, events
    gc.collect()
    await asyncio.sleep(0)
    assert not caplog.records


async def test_a_run_that_is_cancelled_by_others() -> None:
    """The reader learns that the run was cancelled."""

    async def cancelled(bus: EventBus) -> RunResult:
        raise asyncio.CancelledError

    stream = RunStream(cancelled)
    with pytest.raises(asyncio.CancelledError):
        await aread(stream)
    with pytest.raises(UsageError, match="there is no result"):
        _ = stream.result


async def stops_by_break(stream: RunStream) -> None:
    async for _ in stream:
        break
    await asyncio.sleep(0.05)  # the event loop closes the generator that `break` left open


async def stops_by_aclose(stream: RunStream) -> None:
    async with aclosing(aiter(stream)) as events:  # type: ignore[type-var]
        await anext(events)


async def stops_by_cancelling(stream: RunStream) -> None:
    begun = asyncio.Event()

    async def follow() -> None:
        async for _ in stream:
            begun.set()

    task = asyncio.create_task(follow())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def stops_by_raising(stream: RunStream) -> None:
    with suppress(ModelError):
        async for _ in stream:
            raise ModelError("of the reader")
    await asyncio.sleep(0.05)


def break_blocking(stream: RunStream) -> None:
    for _ in stream:
        break


def close_blocking(stream: RunStream) -> None:
    with closing(iter(stream)) as events:  # type: ignore[type-var]
        next(events)


def raise_blocking(stream: RunStream) -> None:
    with suppress(ModelError):
        for _ in stream:
            raise ModelError("of the reader")


@pytest.mark.parametrize(
    "stop",
    [
        stops_by_break,
        stops_by_aclose,
        stops_by_cancelling,
        stops_by_raising,
        break_blocking,
        close_blocking,
        raise_blocking,
    ],
)
async def test_a_reader_that_stops_early(stop: Any) -> None:
    """The run is cancelled and has cleaned up before the reader continues."""
    began = Run(1000, pause=1)
    stream = RunStream(began)
    if asyncio.iscoroutinefunction(stop):
        await stop(stream)
    else:
        await asyncio.to_thread(stop, stream)
    assert began.status == "cancelled"
    assert began.cleaned_up
    assert began.sink.events[-1].data["status"] == "cancelled"
    with pytest.raises(UsageError, match="there is no result"):
        _ = stream.result


async def test_a_reader_that_stops_at_the_end() -> None:
    """A reader that stops at `run_end` has a result, because nothing is left to cancel."""

    def follow(stream: RunStream) -> None:
        for event in stream:
            if event.type == "run_end":
                break

    for _ in range(20):
        stream = RunStream(Run(1))
        await asyncio.to_thread(follow, stream)
        assert stream.result.output == "done"
        stream = RunStream(Run(1))
        async with aclosing(aiter(stream)) as events:  # type: ignore[type-var]
            async for event in events:
                if event.type == "run_end":
                    break
        assert stream.result.output == "done"


_INTERRUPTED = """
import os, signal, threading
from tests.bindings.test_events_run_stream import Run, RunStream, read

began = Run(1000, pause=1)
threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    read(RunStream(began))
except KeyboardInterrupt:
    print(began.status, began.cleaned_up)
"""


def test_ctrl_c_cancels_the_run() -> None:
    """Ctrl-C interrupts a waiting sync reader, and the run cleans up."""
    done = run_program([sys.executable, "-c", _INTERRUPTED], check=True)
    assert done.stdout.split() == ["cancelled", "True"]


def test_a_blocking_reader_on_our_own_loop() -> None:
    """Sync reading on Lorebind's own event loop is an error, because it would wait forever."""

    async def blocks() -> None:
        read(RunStream(Run()))

    with pytest.raises(RuntimeError, match="a blocking call was made from code that Lorebind"):
        run(blocks())


@pytest.mark.parametrize("event_buffer", [1, 1024, 5000])
async def test_a_slow_reader(event_buffer: int) -> None:
    """The run does not wait for a slow reader, which loses the oldest events and is told so."""

    async def runs(bus: EventBus) -> RunResult:
        for number in range(5000):
            bus.emit("custom", number=number)
        bus.emit("run_end", status="completed", seconds=0)
        return RunResult(None, {}, [], "t1", {})

    events = await aread(RunStream(runs, event_buffer=event_buffer))
    assert [event.dropped for event in events] == [5001 - event_buffer, *[0] * event_buffer]
    assert events[-1].type == "run_end"


async def test_many_streams_at_once() -> None:
    """With fifty runs, each reader receives only the events of its own run."""
    streams = [RunStream(Run(3), f"t{number}") for number in range(50)]
    half = len(streams) // 2
    readings = await asyncio.gather(
        *(aread(stream) for stream in streams[:half]),
        *(in_a_thread(stream) for stream in streams[half:]),
    )
    for number, events in enumerate(readings):
        assert {event.thread_id for event in events} == {f"t{number}"}
        assert [event.seq for event in events] == list(range(1, 6))
