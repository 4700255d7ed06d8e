"""The records of failed tasks, whether their failure is handled or not."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import interrupt

from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_config.errors import ThreadRefusedError, UsageError

from .workflow_helpers import (
    Declared,
    collection,
    flow,
    parallel,
    python,
    run,
    says,
    statuses,
    task_fails,
    to,
    wait,
    workflows,
)

ITEM = {"item": "{{ .item }}"}
HANDLED: Declared = {"on_success": to("end"), "on_error": to("end")}
BEST_EFFORT: Declared = {"strategy": "best_effort"}


class CopyingBus(EventBus):
    """Copies the threads when a task's failure is reported, as if the process was killed then."""

    def __init__(self, root: Path, copy: Path) -> None:
        super().__init__("t")
        self.root, self.copy = root, copy

    def publish(self, kind: Any, task: str, path: str, data: Any) -> None:
        super().publish(kind, task, path, data)
        if kind == "task_end" and data["status"] == "failed" and not self.copy.exists():
            shutil.copytree(self.root, self.copy)


class Picky:
    """Work that fails for item 1, unless it is changed to succeed."""

    def __init__(self) -> None:
        self.did: list[int] = []
        self.fails = True

    async def work(self, item: int = 1) -> int:
        self.did.append(item)
        if self.fails and item == 1:
            raise ValueError("no")
        return item

    def items(self, **keys: Any) -> Declared:
        task = python("t", self.work, args=ITEM)
        return collection("c", [0, 1, 2], task, max_workers=1, **keys)


@pytest.mark.parametrize("how", ["best effort", "on_error", "around", "branch", "composite"])
async def test_a_failure_is_durable_before_it_is_told(tmp_path: Path, how: str) -> None:
    """A handled failure is stored before it is reported, so a kill does not repeat the task."""
    picky = Picky()
    inner = {"id": "inner", "tasks": [python("b", picky.work)]}
    composite = {"id": "s", "type": "composite", "workflow": "inner"}
    first = {
        "best effort": picky.items(**BEST_EFFORT, on_success=to("end")),
        "on_error": picky.items(**HANDLED),
        "around": parallel("p", picky.items(), **HANDLED),
        "branch": parallel("p", python("b", picky.work), **BEST_EFFORT, on_success=to("end")),
        "composite": parallel("p", composite, **HANDLED),
    }[how]
    tasks = flow(first, python("end", says("end"), final=True), outputs={"was": "{{ .state }}"})
    store = {"checkpointer": {"type": "sqlite"}}
    flows = workflows(tasks, inner, root=tmp_path / "live", **store)
    bus = CopyingBus(tmp_path / "live", tmp_path / "killed")
    result = await flows.run("w", {}, thread_id="t", bus=bus)
    await flows.close()
    picky.did.clear()
    picky.fails = False
    flows = workflows(tasks, inner, root=tmp_path / "killed", **store)
    again = await flows.resume("w", "t")
    await flows.close()
    assert (1 in picky.did, again.output) == (False, result.output)


async def test_what_failed_as_a_whole_shows_its_parts() -> None:
    """If a failure is handled, the result shows each item and branch, and the output is null."""
    picky = Picky()
    branches = [python("good", says("fine")), python("bad", picky.work), picky.items()]
    end = python("end", says("end"), final=True)
    result = await run(picky.items(**HANDLED), end)
    failed = result.tasks["c"]
    assert (failed.status, failed.output) == ("failed", None)
    assert [item.status for item in failed.items] == ["completed", "failed", "completed"]
    assert [item.output for item in failed.items] == [0, None, 2]
    assert failed.items[1].error == failed.error
    result = await run(parallel("p", *branches, **HANDLED), end)
    assert statuses(result) == {
        "p": "failed",
        "good": "completed",
        "bad": "failed",
        "c": "failed",
        "end": "completed",
    }
    assert (result.tasks["good"].output, len(result.tasks["c"].items)) == ("fine", 3)
    assert result.tasks["p"].items == []


async def test_history_lists_what_failed() -> None:
    """History lists failed tasks too, until they run again and end."""
    picky = Picky()
    flows = workflows(flow(python("a", says(1)), picky.items()))
    with task_fails(ValueError):
        await flows.run("w", {}, thread_id="t")
    steps = await flows.history("w", "t")
    assert [(step["path"], step["status"]) for step in steps] == [
        ("a", "completed"),
        ("c[0].t", "completed"),
        ("c[1].t", "failed"),
        ("c[2].t", "completed"),
        ("c", "failed"),
    ]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    assert steps[2]["error"]["message"] == "no"
    picky.fails = False
    await flows.resume("w", "t")
    steps = await flows.history("w", "t")
    assert [(step["path"], step["status"]) for step in steps] == [
        ("a", "completed"),
        ("c[0].t", "completed"),
        ("c[2].t", "completed"),
        ("c[1].t", "completed"),
        ("c", "completed"),
    ]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_failed_thread_that_is_cut_off_was_interrupted(tmp_path: Path, kind: str) -> None:
    """The error of a thread is cleared when it is resumed."""
    started, fails = asyncio.Event(), [True]

    async def work() -> None:
        if fails:
            raise ValueError("no")
        started.set()
        await asyncio.Event().wait()

    async def status() -> tuple[str, str]:
        (info,) = await flows.threads("w")
        return info.status, info.error

    flows = workflows(flow(python("t", work)), root=tmp_path, checkpointer={"type": kind})
    with task_fails(ValueError):
        await flows.run("w", {}, thread_id="t")
    with task_fails(ValueError):
        await flows.resume("w", "t")
    failed = await status()
    assert failed == ("failed", "t failed: ValueError: no")
    fails.clear()
    resumed = asyncio.create_task(flows.resume("w", "t"))
    await started.wait()
    resumed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resumed
    assert await status() == ("interrupted", "")
    fails.append(True)
    with task_fails(ValueError):
        await flows.resume("w", "t")
    assert await status() == failed
    await flows.close()


@pytest.mark.parametrize("colour", ["async", "plain"])
async def test_interrupts_of_langgraph_are_refused(colour: str) -> None:
    """A function that calls `interrupt()` fails its task, and the message names `wait` tasks."""

    async def asks() -> Any:
        return interrupt("who?")

    with task_fails(UsageError, "task 't' .*LangGraph interrupts cannot suspend .*type: wait"):
        await run(python("t", asks if colour == "async" else lambda: interrupt("who?")))


async def test_code_that_is_not_there_is_named_once() -> None:
    """The error of a failed task names the task only once."""
    task = python("t", says(1))
    task["call"] = f"{says.__module__}:nope"
    with task_fails(UsageError, "task 't' of workflow 'w' failed: module .* has no 'nope'"):
        await run(task)


async def test_an_input_is_missing_only_where_it_is_taken() -> None:
    """A waiting thread is refused for that reason, whether inputs are given or not."""
    flows = workflows(flow(wait("ask"), input={"x": {}}))
    await flows.run("w", {"x": "1"}, thread_id="t")
    for inputs in ({}, {"x": "1"}, {"y": 1}):
        with pytest.raises(ThreadRefusedError, match="waits for answers"):
            await flows.run("w", inputs, thread_id="t")
    with pytest.raises(UsageError, match="needs the input 'x'"):
        await flows.run("w", {}, thread_id="u")
    (info,) = await flows.threads("w")
    assert info.thread_id == "t"
