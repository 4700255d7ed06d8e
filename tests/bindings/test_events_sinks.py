"""Sinks: what they write, and that none of them blocks a run."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lorebind_bindings.workflow.events import RunEvent, bus, event_schema
from lorebind_bindings.workflow.events.bus import EventBus, SinkHealth
from lorebind_bindings.workflow.events.sinks import (
    JsonLinesSink,
    MemorySink,
    StdoutSink,
    as_sink,
)
from lorebind_config.errors import UsageError
from lorebind_config.namespace import current_tenant, tenant
from lorebind_knowledge.plumbing.bridge import run


@pytest.fixture
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus, "CLOSE_SECONDS", 0.3)


async def watched(*values: Any, count: int = 10, pause: float = 0) -> list[SinkHealth]:
    """Run some events with these sinks, and return the health of the sinks at the end."""
    bus = EventBus("t1")
    bus.attach([as_sink(value) for value in values])
    for number in range(count):
        bus.emit("custom", "read", "read", number=number, text="ä\n\u2028\ud800")
        await asyncio.sleep(pause)
    bus.emit("run_end", status="completed", seconds=0.5)
    await bus.close()
    return bus.health


def counts(health: SinkHealth) -> tuple[int, int, int]:
    return health.written, health.failed, health.dropped


async def test_memory() -> None:
    """A memory sink has all events when the bus is closed."""
    sink = MemorySink()
    (health,) = await watched(sink)
    assert [event.seq for event in sink.events] == list(range(1, 12))
    assert (health.sink, *counts(health), health.last_error) == ("MemorySink", 11, 0, 0, "")


async def test_json_lines(tmp_path: Path) -> None:
    """The file has one valid event per line, for any text; a second run is appended."""
    path = tmp_path / "events.jsonl"
    for sink in (str(path), path):
        (health,) = await watched(sink)
        assert counts(health) == (11, 0, 0)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["seq"] for line in lines] == [*range(1, 12), *range(1, 12)]
    assert lines[0]["data"]["text"] == "ä\n\u2028\ud800"
    for line in lines:
        Draft202012Validator(event_schema()).validate(line)


async def test_json_lines_are_there_while_the_run_goes_on(tmp_path: Path) -> None:
    """Lines can be read before the run ends."""
    bus = EventBus("t1")
    path = tmp_path / "events.jsonl"
    bus.attach([as_sink(path)])
    bus.emit("custom", number=1)
    deadline = time.monotonic() + 60
    while not path.read_bytes().endswith(b"\n"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
    assert not bus.is_closed
    await bus.close()


async def test_json_lines_after_a_line_that_was_cut_off(tmp_path: Path) -> None:
    """An incomplete line of a killed process does not damage the next line."""
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "cus')
    await watched(path, count=1)
    cut, first, last = path.read_text().splitlines()
    assert cut == '{"type": "cus'
    assert [json.loads(first)["seq"], json.loads(last)["seq"]] == [1, 2]


async def test_runs_that_share_a_file(tmp_path: Path) -> None:
    """Lines are complete, and none is lost when one of the runs ends first."""
    sink = JsonLinesSink(tmp_path / "events.jsonl")
    await asyncio.gather(*(watched(sink, count=50 * number, pause=0.001) for number in (1, 2, 3)))
    lines = sink.path.read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 303


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "cannot write events to {root}: Is a directory; name a file in a folder that exists"),
        ("no/events", "cannot write events to {root}/no/events: No such file or directory; name"),
        ("a\0b", "cannot write events to {root}/a\0b: embedded null byte; name a file"),
    ],
)
def test_a_file_that_cannot_be_written(tmp_path: Path, path: str, message: str) -> None:
    """A path that cannot be written is rejected before the run, with the reason."""
    with pytest.raises(UsageError) as caught:
        as_sink(tmp_path / path)
    assert str(caught.value).startswith(message.format(root=tmp_path))


async def test_a_disk_that_is_full() -> None:
    """Events that could not be written to a full disk are not counted as written."""
    (health,) = await watched("/dev/full")
    written, failed, dropped = counts(health)
    assert (written, dropped) == (0, 0)
    assert failed in (11, 12)  # 12 if the diagnostic came before the end
    assert "No space left on device" in health.last_error


async def test_what_json_cannot_hold(tmp_path: Path) -> None:
    """An event that JSON cannot represent fails alone."""
    bus = EventBus("t1")
    bus.attach([as_sink(tmp_path / "events.jsonl")])
    bus.emit("custom", right=1)
    bus.emit("custom", wrong=float("nan"))
    bus.emit("custom", wrong=object())
    await bus.close()
    assert bus.health[0].failed == 2
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert [line["seq"] for line in lines if line["type"] == "custom"] == [1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Latin(io.StringIO):
    encoding = "ascii"


async def test_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event is printed as a line, colored in a terminal that supports it."""
    plain, terminal, uncoloured, ascii_only = io.StringIO(), Terminal(), Terminal(), Latin()
    for out in (plain, terminal, uncoloured, ascii_only):
        monkeypatch.setattr("sys.stdout", out)
        if out is uncoloured:
            monkeypatch.setenv("NO_COLOR", "1")
        assert counts((await watched("stdout", count=1))[0]) == (2, 0, 0)
    lines = plain.getvalue().splitlines()
    assert lines[0].startswith("read emits {'number': 0")
    assert lines[1] == "run completed after 0.50 s"
    assert terminal.getvalue().splitlines()[1] == f"\x1b[32m{lines[1]}\x1b[0m"
    assert uncoloured.getvalue() == plain.getvalue()
    assert "\\xe4" in ascii_only.getvalue()


async def test_a_callback() -> None:
    """A sync callback is called in another thread, as the tenant of the run."""
    seen: list[tuple[int, str, bool]] = []
    here = threading.get_ident()
    with tenant("acme"):
        (health,) = await watched(
            lambda event: seen.append((event.seq, current_tenant(), threading.get_ident() == here))
        )
    assert seen == [(number, "acme", False) for number in range(1, 12)]
    assert "lambda" in health.sink


async def test_one_thread_calls_all_sinks() -> None:
    """Each event is passed to all sinks in their order, in one thread."""
    calls: list[tuple[int, int, int]] = []

    def callback(number: int, event: RunEvent) -> None:
        calls.append((event.seq, number, threading.get_ident()))

    await watched(*(functools.partial(callback, number) for number in range(3)))
    assert [call[:2] for call in calls] == [(seq, n) for seq in range(1, 12) for n in range(3)]
    assert len({thread for _, _, thread in calls}) == 1


async def test_an_asynchronous_callback_runs_on_the_callers_loop() -> None:
    """An async callback runs on the caller's loop, whose connections it can use."""
    received: asyncio.Queue[int] = asyncio.Queue()
    seen: list[tuple[str, bool]] = []
    loop = asyncio.get_running_loop()

    async def callback(event: RunEvent) -> None:
        await asyncio.sleep(0.001)
        await received.put(event.seq)
        seen.append((current_tenant(), asyncio.get_running_loop() is loop))

    with tenant("acme"):
        (health,) = await watched(callback)
    assert counts(health) == (11, 0, 0)
    assert [received.get_nowait() for _ in range(11)] == list(range(1, 12))
    assert set(seen) == {("acme", True)}


def test_an_asynchronous_callback_of_a_caller_that_blocks() -> None:
    """For sync callers, an async callback runs on its own loop, where it may block."""
    loops: set[tuple[Any, str]] = set()

    async def callback(event: RunEvent) -> None:
        await asyncio.sleep(0)
        time.sleep(0.01)  # noqa: ASYNC251
        loops.add((asyncio.get_running_loop(), current_tenant()))

    async def on_our_loop() -> tuple[Any, list[SinkHealth]]:
        return asyncio.get_running_loop(), await watched(callback)

    with tenant("acme"):
        ours, (health,) = run(on_our_loop())
    assert counts(health) == (11, 0, 0)
    ((theirs, name),) = loops
    assert theirs is not ours
    assert theirs.is_closed()
    assert name == "acme"


class Failing:
    """A sink that raises in some of its calls."""

    def __init__(self, at: str, error: type[BaseException] = ValueError) -> None:
        self.at, self.error = at, error
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.at:
            raise self.error("no room for sk-123")

    def write(self, event: RunEvent) -> None:
        self._call("write")

    async def close(self) -> None:
        self._call("close")


@pytest.mark.parametrize("error", [ValueError, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("at", ["write", "close"])
async def test_a_sink_that_raises(
    at: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Errors are counted, and reported once by an event and in the log; the sink continues."""
    sink, memory = Failing(at, error), MemorySink()
    with caplog.at_level(logging.WARNING, "lorebind.events"):
        failing, healthy = await watched(sink, memory, pause=0.002)
    emitted = len(memory.events)
    assert sum(counts(failing)) == sum(counts(healthy)) == emitted
    assert failing.failed == (0 if at == "close" else emitted)
    assert error.__name__ in failing.last_error
    assert counts(healthy) == (emitted, 0, 0)
    diagnostics = [event for event in memory.events if event.type == "diagnostic"]
    assert len(diagnostics) == (at != "close")  # an error of `close` comes after the last event
    for event in diagnostics:
        Draft202012Validator(event_schema()).validate(event.as_json())
        assert event.data["sink"] == "Failing"
        assert event.data["message"] == f"sink Failing failed: {failing.last_error}"
    assert len(caplog.records) == 1
    assert sink.calls[-1] == "close"


async def test_a_sink_that_fails_only_at_the_end() -> None:
    """An error at the end is still reported to the other sinks."""
    memory = MemorySink()

    def callback(event: RunEvent) -> None:
        if event.type == "run_end":
            time.sleep(0.05)
            raise OSError("gone")

    await watched(memory, callback)
    assert [event.type for event in memory.events[-2:]] == ["run_end", "diagnostic"]


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize("colour", ["blocking", "async", "async on our loop"])
def test_a_sink_that_never_returns(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    """A sink that hangs does not block the producer, and is given up at the end with the others."""
    release = threading.Event()
    first, later = MemorySink(), MemorySink()
    cancelled: list[bool] = []

    def blocks(event: RunEvent) -> None:
        release.wait(60)

    async def awaits(event: RunEvent) -> None:
        try:
            await asyncio.sleep(60 if colour == "async" else 1)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def one_run() -> tuple[list[SinkHealth], float]:
        bus = EventBus("t1")
        bus.attach([first, blocks if colour == "blocking" else awaits, later])
        for number in range(3000):
            bus.emit("custom", number=number)
            if number % 100 == 0:
                await asyncio.sleep(0.001)
        started = time.monotonic()
        await bus.close()
        seconds = time.monotonic() - started
        await asyncio.wait_for(bus.close(), 0.1)  # closing does not wait for the sink again
        return bus.health, seconds

    (before, stuck, after), seconds = (
        run(one_run()) if colour == "async on our loop" else asyncio.run(one_run())
    )
    release.set()
    assert 0.3 <= seconds < 20
    assert counts(stuck) == (0, 0, 3000)
    assert (counts(before), counts(after)) == ((1, 0, 2999), (0, 0, 3000))
    assert {stuck.last_error, before.last_error, after.last_error} == {
        f"given up: sink {stuck.sink} took too long to finish"
    }
    assert cancelled == ([True] if colour == "async" else [])
    assert "was given up" in caplog.text


async def test_a_slow_sink_loses_the_oldest() -> None:
    """A slow sink is told how many events it lost; written and lost events add up."""
    seen: list[RunEvent] = []
    emitted = threading.Event()

    def slow(event: RunEvent) -> None:
        seen.append(event)
        emitted.wait(60)

    bus = EventBus("t1")
    bus.attach([slow])
    while not seen:
        bus.emit("custom")
        await asyncio.sleep(0.001)
    for _ in range(5000):
        bus.emit("custom")
    emitted.set()
    await bus.close()
    (health,) = bus.health
    assert sum(counts(health)) == bus.seq
    assert health.dropped == sum(event.dropped for event in seen) > 3000
    assert health.written == len([event for event in seen if not event.dropped])


async def test_a_cancelled_close_still_writes_everything(tmp_path: Path) -> None:
    """Subscribers end immediately, and sinks finish in the background."""
    bus = EventBus("t1")
    path = tmp_path / "events.jsonl"
    bus.attach([as_sink(path), lambda event: time.sleep(0.02)])
    reader = bus.subscribe()
    for _ in range(10):
        bus.emit("custom")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(bus.close(), 0.01)
    assert len(list(reader)) == 10
    deadline = time.monotonic() + 60
    while [health.written for health in bus.health] != [10, 10]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    assert len(path.read_text().splitlines()) == 10


@pytest.mark.parametrize("value", [print, asyncio.sleep, MemorySink()])
def test_sinks_and_functions_are_used_as_they_are(value: Any) -> None:
    assert as_sink(value) is value


def test_stdout_by_its_name() -> None:
    """The string `stdout` is the terminal; other strings are files."""
    assert isinstance(as_sink("stdout"), StdoutSink)


def test_a_file_named_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `Path` is always a file, even if it is named `stdout`."""
    monkeypatch.chdir(tmp_path)
    assert isinstance(as_sink(Path("stdout")), JsonLinesSink)


@pytest.mark.parametrize("make", [lambda: 3, lambda: "", lambda: MemorySink, io.StringIO])
def test_what_is_no_sink(make: Callable[[], object]) -> None:
    """Other values are rejected with the accepted ones, including classes and open files."""
    with pytest.raises(UsageError, match=r"is not a sink; pass an object with `write\(event\)`, a"):
        as_sink(make())
