"""Tasks whose output is cached for the same work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from lorebind_bindings import Update, Workflows
from lorebind_config.errors import UsageError
from lorebind_config.namespace import tenant

from .workflow_helpers import (
    Declared,
    collection,
    flow,
    parallel,
    python,
    says,
    task_fails,
    wait,
    workflows,
)

CACHED = {"cache": {"ttl_seconds": 60}}
HOLDERS: dict[str, Callable[[Declared], Declared]] = {
    "parallel": lambda inner: parallel("x", inner, **CACHED),
    "collection": lambda inner: collection("x", [1], inner, **CACHED),
    "router": lambda inner: {
        "id": "x",
        "type": "router",
        "condition": "input.value",
        "routes": {"a": "y", "b": "z"},
        **CACHED,
    },
}


class Counting:
    """Work that counts its calls."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    async def work(self, value: Any = None) -> str:
        self.done.append(value)
        return f"{value} {len(self.done)}"


def cached(counting: Counting, **keys: Any) -> Workflows:
    task = python("t", counting.work, args={"value": "{{ .input.value }}"}, **{**CACHED, **keys})
    return workflows(flow(task, input={"value": {}}))


async def outputs(flows: Workflows, *values: str) -> list[Any]:
    return [(await flows.run("w", {"value": value})).output for value in values]


async def test_a_cached_output_is_used_for_the_same_work() -> None:
    """The same values reuse the output without calling the function; other values do not."""
    counting = Counting()
    assert await outputs(cached(counting), "a", "b", "a", "b") == ["a 1", "b 2", "a 1", "b 2"]


async def test_a_cache_belongs_to_a_tenant() -> None:
    """A cached output is never used for another tenant."""
    counting = Counting()
    flows = cached(counting)
    sent = []
    for name in ("one", "two", "one", "two"):
        with tenant(name):
            sent += await outputs(flows, "a")
    assert sent == ["a 1", "a 2", "a 1", "a 2"]


async def test_a_cache_ends() -> None:
    """After `ttl_seconds` the function is called again, even if the output was used since."""
    counting = Counting()
    flows = cached(counting, cache={"ttl_seconds": 0.3})
    deadline = time.monotonic() + 30
    while len(counting.done) < 2:
        await outputs(flows, "a")
        assert time.monotonic() < deadline, "the cached output is still used after 30 s"
        await asyncio.sleep(0.05)


async def test_failures_are_not_cached() -> None:
    """Failures and rejected outputs are not cached."""
    counts = {"n": 0}

    async def work() -> Any:
        counts["n"] += 1
        return object() if counts["n"] == 1 else counts["n"]

    flows = workflows(flow(python("t", work, **CACHED)))
    with task_fails(UsageError, "output of task 't' is not JSON"):
        await flows.run("w", {})
    assert (await flows.run("w", {})).output == 2


@pytest.mark.parametrize("kind", ["parallel", "collection"])
async def test_a_cached_task_that_holds_others(kind: str) -> None:
    """Names used by nested tasks are part of the cache key."""
    counting = Counting()
    inner = python("t", counting.work, args={"value": "{{ .input.value }}"})
    flows = workflows(flow(HOLDERS[kind](inner), input={"value": {}}))
    results = await outputs(flows, "a", "b", "a")
    assert [str(output).count("a 1") for output in results] == [1, 0, 1]
    assert counting.done == ["a", "b"]


async def test_a_cached_choice() -> None:
    """Names used by conditions are part of the cache key."""
    ends = [python(name, says(name), final=True) for name in ("y", "z")]
    flows = workflows(flow(HOLDERS["router"]({}), *ends, input={"value": {}}))
    assert await outputs(flows, "a", "b", "a") == ["y", "z", "y"]


async def test_what_a_cached_task_writes_is_written_again() -> None:
    """A cached output includes the task's writes."""

    async def work() -> Update:
        return Update("x", messages=[{"role": "user", "content": "x"}])

    task = python("t", work, **CACHED, update={"extra": {"said": "{{ .output }}"}})
    state = {"messages": "{{ .state.messages }}", "extra": "{{ .state.extra }}"}
    flows = workflows(flow(task, outputs=state))
    first, second = await flows.run("w", {}), await flows.run("w", {})
    assert first.output == second.output
    assert first.output == {
        "messages": [{"role": "user", "content": "x"}],
        "extra": {"said": "x"},
    }


async def test_a_task_is_cached_across_a_question() -> None:
    """A task that waits is not cached until it has an output."""
    flows = workflows(flow(wait("ask", **CACHED)))
    await flows.run("w", {}, thread_id="t")
    assert (await flows.resume("w", "t", {"ask": 1})).output == 1
