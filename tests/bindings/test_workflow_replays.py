"""Threads that failed go on, and threads are replayed from a step."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from lorebind_config.errors import TaskError, ThreadRefusedError, UsageError

from .workflow_helpers import (
    Declared,
    begun,
    flow,
    info,
    parallel,
    paths,
    python,
    says,
    task_fails,
    wait,
    workflows,
)


async def test_a_failed_thread_goes_on_where_it_failed() -> None:
    """Tasks that ended before or next to the failure do not run again; new input is refused."""
    ran: list[str] = []
    broken = [True]

    async def note(name: str) -> str:
        ran.append(name)
        if name == "bad" and broken:
            raise ValueError("no")
        return name

    def task(name: str, **keys: Any) -> Declared:
        return python(name, note, args={"name": name}, **keys)

    flows = workflows(
        flow(task("a"), parallel("p", task("bad"), [task("b"), task("c")]), task("d"))
    )
    with task_fails(
        ValueError, "task 'p.bad' of workflow 'w' failed: ValueError: no; finished tasks"
    ):
        await flows.run("w", {}, thread_id="t")
    assert sorted(ran) == ["a", "b", "bad", "c"]
    assert (await info(flows)).status == "failed"
    with pytest.raises(ThreadRefusedError, match="has failed and accepts no new input"):
        await flows.run("w", {}, thread_id="t")
    with task_fails(ValueError):
        await flows.resume("w", "t")
    broken.clear()
    ran.clear()
    result = await flows.resume("w", "t")
    assert (result.output, ran) == ("d", ["bad", "d"])


async def test_a_failure_keeps_the_answers() -> None:
    """A run that fails after an answer keeps it, and accepts further answers."""
    broken = [True]

    async def after(answer: str) -> str:
        if broken:
            raise ValueError("no")
        return answer

    chain = [wait("a"), python("after", after, args={"answer": "{{ .tasks.a.output }}"})]
    flows, result = await begun(parallel("p", chain, wait("b")))
    assert paths(result) == ["p.a", "p.b"]
    with task_fails(ValueError):
        await flows.resume("w", "t", {"a": "A"})
    broken.clear()
    result = await flows.resume("w", "t")
    assert (result.status, paths(result)) == ("waiting", ["p.b"])
    result = await flows.resume("w", "t", {"b": "B"})
    assert result.output == {"a": "A", "after": "A", "b": "B"}


async def test_an_answer_for_a_thread_that_has_failed() -> None:
    """A question that was open when another task failed can be answered immediately."""
    broken = [True]

    async def fragile() -> str:
        if broken:
            raise ValueError("no")
        return "fine"

    flows = workflows(flow(parallel("p", wait("a"), python("b", fragile))))
    with pytest.raises(TaskError):
        await flows.run("w", {}, thread_id="t")
    broken.clear()
    result = await flows.resume("w", "t")
    assert (result.status, paths(result)) == ("waiting", ["p.a"])
    result = await flows.resume("w", "t", {"a": 1})
    assert result.output == {"a": 1, "b": "fine"}


async def test_a_replay_begins_after_a_step() -> None:
    """A replay is a new thread that reuses earlier steps; the old thread does not change."""
    ran: list[str] = []

    async def note(name: str) -> str:
        ran.append(name)
        return f"{name}{len(ran)}"

    tasks = [python(name, note, args={"name": name}) for name in ("a", "b")]
    flows = workflows(flow(*tasks, wait("ask"), python("c", note, args={"name": "c"})))
    await flows.run("w", {}, thread_id="t")
    await flows.resume("w", "t", {"ask": 1})
    before = await flows.history("w", "t")
    assert [(record["step"], record["path"]) for record in before] == [
        (1, "a"),
        (2, "b"),
        (3, "ask"),
        (4, "c"),
    ]
    result = await flows.replay("w", "t", 1)
    assert (result.status, ran[3:]) == ("waiting", ["b"])
    assert result.thread_id != "t"
    assert {name: task.output for name, task in result.tasks.items()} == {"a": "a1", "b": "b4"}
    result = await flows.replay("w", "t", 3)
    assert (result.output, ran[4:]) == ("c5", ["c"])
    assert await flows.history("w", "t") == before
    with pytest.raises(UsageError, match="has no step 5 in its last turn; expected 0 to 4"):
        await flows.replay("w", "t", 5)
    third = await flows.run("w", {}, thread_id="other")
    await flows.resume("w", "other", {"ask": 1})
    for taken in ("t", "other", result.thread_id):
        with pytest.raises(ThreadRefusedError, match=f"thread '{taken}' .* already exists"):
            await flows.replay("w", "t", 1, new_id=taken)
    assert (await flows.history("w", "t"), third.status) == (before, "waiting")
    assert (await flows.replay("w", "t", 3, new_id="fresh")).thread_id == "fresh"


async def test_a_thread_without_a_task_is_resumed_and_not_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that was killed before its first task left an input, which can only be resumed."""
    flows = workflows(flow(python("a", says("fine"))))
    put = InMemorySaver.put

    def only_the_input(*arguments: Any) -> Any:
        if arguments[3]["source"] != "input":
            raise OSError("killed")
        return put(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(InMemorySaver, "put", only_the_input)
        with pytest.raises(OSError, match="killed"):
            await flows.run("w", {}, thread_id="t")
    with pytest.raises(ThreadRefusedError) as refused:
        await flows.replay("w", "t", 0)
    assert str(refused.value) == (
        "thread 't' of workflow 'w' was interrupted before its first task, there is nothing to "
        "replay; resume it: project.resume('w', 't')"
    )
    assert (await flows.resume("w", "t")).output == "fine"
