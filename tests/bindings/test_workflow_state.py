"""State that tasks share: channels, which tasks may write them, and the order of writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lorebind_bindings import TaskContext, Update
from lorebind_config.errors import UsageError

from .workflow_helpers import (
    Declared,
    flow,
    parallel,
    python,
    raises,
    run,
    says,
    task_fails,
    to,
    workflows,
)

EVERYTHING = {name: f"{{{{ .state.{name} }}}}" for name in ("messages", "extra", "errors")}


def message(content: str, **keys: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **keys}


def appended(value: list[Any], update: Any) -> list[Any]:
    return [*value, update]


def appended_in_place(value: list[Any], update: Any) -> list[Any]:
    value.append(update)
    return value


calls: list[Any] = []


def counted(value: list[Any], update: Any) -> list[Any]:
    calls.append(update)
    return [*value, update]


def doubled(value: Any, update: Any) -> Any:
    return [*value, *value]


def as_set(value: Any, update: Any) -> Any:
    return {1, 2}


def picky(value: Any, update: Any) -> Any:
    if update == "bad":
        raise ValueError("it is bad")
    if update == "worse":
        raise GeneratorExit
    return update


def channel(*reducers: Any, **keys: Any) -> Declared:
    names = [f"{__name__}:{reduce.__name__}" for reduce in reducers]
    return {"channels": {"seen": {"reducers": names, **keys}}}


def writes(name: str, value: Any = None, **keys: Any) -> Declared:
    """Make a task that writes its name, or a value, into `seen`."""
    return python(name, says(Update(name, seen=name if value is None else value)), **keys)


async def state_after(*updates: Update) -> dict[str, Any]:
    """Return all channels after tasks that write these values in sequence."""
    tasks = [python(f"t{at}", says(update)) for at, update in enumerate(updates)]
    result = await run(*tasks, outputs=EVERYTHING)
    output: dict[str, Any] = result.output
    return output


async def test_messages_are_appended_by_id() -> None:
    """A message replaces the one with its id; others are appended, alone or as a list."""
    state = await state_after(
        Update(messages=[message("a", id="1"), message("b")]),
        Update(messages=message("c", id="2")),
        Update(messages=[message("A", id="1"), message("b"), message("d", id="3")]),
    )
    assert [message["content"] for message in state["messages"]] == ["A", "b", "c", "b", "d"]


async def test_extra_is_merged() -> None:
    """Keys are replaced individually, and null deletes a key."""
    state = await state_after(
        Update(extra={"a": 1, "b": {"x": 1}}), Update(extra={"b": {"y": 2}, "c": 3, "a": None})
    )
    assert state["extra"] == {"b": {"y": 2}, "c": 3}


async def test_handled_failures_are_kept() -> None:
    """`errors` has all handled failures, in addition to what tasks write there."""
    result = await run(
        python("a", raises(ValueError("no")), on_error=to("b"), on_success=to("b")),
        python("b", says(Update(errors={"mine": 1})), final=True),
        outputs=EVERYTHING,
    )
    handled, mine = result.output["errors"]
    assert handled == {
        "task": "a",
        "path": "a",
        "type": "ValueError",
        "message": "no",
    }
    assert mine == {"mine": 1}


async def test_tasks_see_what_was_written_before_them() -> None:
    """Earlier writes are visible as `state` in templates and conditions, and `context.state`."""
    seen: dict[str, Any] = {}

    def look(context: TaskContext, text: Any) -> None:
        seen.update(context.state)
        seen["told"] = text
        with pytest.raises(TypeError):
            context.state["seen"] = 1  # type: ignore[index]
        context.state["messages"].append("changed")

    inputs = {"text": "{{ .state.seen }} {{ .state.extra.x }}"}
    result = await run(
        writes("a"),
        python("x", says(Update(extra={"x": 1}))),
        python("b", look, args=inputs, condition="state.seen == 'a' && state.extra.x == 1"),
        outputs=EVERYTHING,
        **channel(),
    )
    expected = {"messages": [], "extra": {"x": 1}, "errors": [], "seen": "a", "told": "a 1"}
    assert {**seen, "messages": []} == expected
    assert result.output["messages"] == []


async def test_declared_updates_see_the_output() -> None:
    """`update` is applied after the writes of the function, and can use the output."""
    result = await run(
        python(
            "t",
            says(Update({"x": 2}, seen=1)),
            update={"seen": "{{ .output.x }}", "extra": {"was": "{{ .output }}"}},
        ),
        outputs={"seen": "{{ .state.seen }}", "extra": "{{ .state.extra }}"},
        **channel(appended, default=[]),
    )
    assert result.output == {"seen": [1, 2], "extra": {"was": {"x": 2}}}


async def test_reducers_are_called_one_after_the_other() -> None:
    """Reducers are called in declared order, starting with the default."""
    outputs = {"seen": "{{ .state.seen }}"}
    result = await run(
        writes("a"), writes("b"), outputs=outputs, **channel(appended, doubled, default=["0"])
    )
    assert result.output == {"seen": ["0", "a", "0", "a", "b"] * 2}


async def test_a_reducer_may_change_what_it_is_given() -> None:
    """A reducer may change its arguments without affecting other runs, the default or the past."""
    seen = []

    def look(context: TaskContext) -> None:
        seen.append(list(context.state["seen"]))

    flows = workflows(
        flow(
            writes("a"),
            python("look", look, condition="size(state.seen) == 1"),
            writes("b"),
            python("again", look),
            outputs={"seen": "{{ .state.seen }}"},
            **channel(appended_in_place, default=[]),
        )
    )
    for _ in range(2):
        assert (await flows.run("w", {})).output == {"seen": ["a", "b"]}
    assert seen == [["a"], ["a", "b"]] * 2


async def test_the_last_one_counts_where_there_is_no_reducer() -> None:
    """Without a reducer, the last of several consecutive writes counts, also in loops."""
    outputs = {"seen": "{{ .state.seen }}"}
    result = await run(writes("a"), writes("b"), outputs=outputs, **channel())
    assert result.output == {"seen": "b"}
    branch = parallel("p", [writes("x"), writes("y")], python("z", says(1)))
    result = await run(writes("a"), branch, outputs=outputs, **channel())
    assert result.output == {"seen": "y"}
    result = await run(branch, writes("a"), outputs=outputs, **channel())
    assert result.output == {"seen": "a"}


FORK = python("start", says(1), on_success=to("a", "b"))


@pytest.mark.parametrize("watched", [False, True])
async def test_two_side_by_side_need_a_reducer(watched: bool) -> None:
    """Concurrent writes without a reducer are an error that names both tasks and the channel."""
    inputs = {"args": {"seen": "{{ .state.seen }}"}} if watched else {}
    join = python("join", lambda seen=None: seen, final=True, **inputs)
    tasks = [FORK, writes("a", on_success=to("join")), writes("b", on_success=to("join")), join]
    named = "tasks 'a' and 'b' both write channel 'seen', and neither runs before the other"
    flows = workflows(flow(*tasks, **channel()))
    with task_fails(UsageError, named):
        await flows.run("w", {}, thread_id="t")
    (info,) = await flows.threads("w")
    assert info.status == "failed"
    result = await run(*tasks, **channel(appended, default=[]), outputs={"s": "{{ .state.seen }}"})
    assert result.output == {"s": ["a", "b"]}


async def test_one_of_two_paths_may_write() -> None:
    """A channel may be written on one path after a fork, and again after the join."""
    outputs = {"seen": "{{ .state.seen }}"}
    result = await run(
        FORK,
        writes("a", on_success=to("join")),
        python("b", says(1), on_success=to("join")),
        writes("join", final=True),
        outputs=outputs,
        **channel(),
    )
    assert result.output == {"seen": "join"}


async def test_branches_side_by_side_need_a_reducer() -> None:
    """Branches need a reducer too; each sees the state before the fork, not the other branch."""
    seen: dict[str, Any] = {}

    async def look(name: str, context: TaskContext) -> Update:
        await asyncio.sleep(0)
        seen[name] = context.state["seen"]
        return Update(seen=name)

    first = [writes("x"), python("a", look, args={"name": "a"})]
    second = [writes("y"), python("b", look, args={"name": "b"})]
    both = parallel("p", first, second)
    with task_fails(UsageError, "tasks 'p.a' and 'p.b' both write channel 'seen'"):
        await run(both, **channel())
    outputs = {"seen": "{{ .state.seen }}"}
    result = await run(writes("0"), both, outputs=outputs, **channel(appended, default=[]))
    assert result.output == {"seen": ["0", "x", "a", "y", "b"]}
    assert seen == {"a": ["0", "x"], "b": ["0", "y"]}


async def test_a_channel_that_is_not_there() -> None:
    """An unknown channel is an error that suggests the closest name and can be handled."""
    bad = python("t", says(Update(sen=1)))
    with task_fails(UsageError, "'t' of .*: there is no channel 'sen'; did you mean 'seen'"):
        await run(bad, **channel())
    result = await run(
        {**bad, "on_error": to("e"), "on_success": to("e")}, python("e", says(2), final=True)
    )
    assert result.output == 2


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (
            Update(seen=object()),
            "what task 't' writes into channel 'seen' is not JSON: a value of type object",
        ),
        (
            Update(extra={"x": {1, 2}}),
            r"channel 'extra' is not JSON at \['x'\]: a value of type set",
        ),
        (Update(seen={"x": float("inf")}), r"'seen' is not JSON at \['x'\]: the number inf"),
        (Update(extra=[1]), "channel 'extra' takes a mapping, got a list"),
        (Update(messages=["hello"]), "channel 'messages' takes mappings .*, got a str"),
        (
            Update(messages=[message("a", id=[])]),
            "channel 'messages' takes messages whose `id` is text",
        ),
    ],
)
async def test_what_no_channel_takes(update: Update, message: str) -> None:
    """An invalid write fails the task that writes, and after a fix the thread can be resumed."""
    mended: list[bool] = []
    function = lambda: Update("fine") if mended else update  # noqa: E731
    flows = workflows(flow(python("t", function), python("u", says(1)), **channel()))
    with task_fails(UsageError, f"task 't' of workflow 'w' failed: .*{message}"):
        await flows.run("w", {}, thread_id="t")
    mended.append(True)
    assert (await flows.resume("w", "t")).tasks["t"].output == "fine"


async def test_a_reducer_that_fails() -> None:
    """An error or invalid result of a reducer fails the task that writes."""
    match = "channel 'seen' does not accept what task 'b' wrote: ValueError: it is bad"
    with task_fails(UsageError, match):
        await run(writes("a"), writes("b", "bad"), **channel(picky))
    with task_fails(UsageError, "channel 'seen' does not accept .*: it raised GeneratorExit"):
        await run(writes("a"), writes("b", "worse"), **channel(picky))
    with task_fails(UsageError, "channel 'seen' after task 'a' is not JSON: a value of type set"):
        await run(writes("a"), **channel(as_set))
    with pytest.raises(UsageError, match="has no 'no_such'"):
        await run(writes("a"), channels={"seen": {"reducers": [f"{__name__}:no_such"]}})


async def test_another_workflow_has_a_state_of_its_own() -> None:
    """The tasks of a composite neither see nor change the outer channels."""
    look = python("look", lambda context: dict(context.state))
    inner: Declared = {
        "id": "inner",
        "tasks": [look, python("in", says(Update(extra={"inside": 1})))],
        "outputs": {"saw": "{{ .tasks.look.output }}", "extra": "{{ .state.extra }}"},
    }
    outer = flow(
        python("before", says(Update(extra={"outside": 1}))),
        {"id": "sub", "type": "composite", "workflow": "inner"},
        outputs={"sub": "{{ .tasks.sub.output }}", "extra": "{{ .state.extra }}"},
    )
    result = await workflows(inner, outer).run("w", {})
    assert result.output == {
        "sub": {"saw": {"messages": [], "extra": {}, "errors": []}, "extra": {"inside": 1}},
        "extra": {"outside": 1},
    }


async def test_nobody_changes_what_others_see() -> None:
    """A function that changes its arguments or its return value changes no output."""
    output: dict[str, Any] = {"list": [1]}

    async def make() -> dict[str, Any]:
        return output

    async def change(value: dict[str, Any]) -> None:
        value["list"].append(2)
        output["list"].append(3)

    passed = {"value": "{{ .tasks.a.output }}"}
    outputs = {"a": "{{ .tasks.a.output }}", "list": "{{ .input.list }}"}
    spoil = python("b", lambda value: value.clear(), args={"value": "{{ .input.list }}"})
    inputs: Declared = {"input": {"list": {"type": "array"}}}
    result = await run(
        python("a", make),
        parallel("p", python("x", change, args=passed), python("y", change, args=passed), spoil),
        inputs={"list": [1]},
        outputs=outputs,
        **inputs,
    )
    assert result.output == {"a": {"list": [1]}, "list": [1]}


async def test_many_rounds_that_write() -> None:
    """A task sees all writes before it, and reducer calls are proportional to the writes."""
    rounds = 100
    calls.clear()
    count = python(
        "count",
        lambda context: Update(len(context.state["seen"]) + 1, seen=1),
        on_success=to("again"),
    )
    again = {
        "id": "again",
        "type": "router",
        "condition": f"size(state.seen) < {rounds}",
        "routes": {"true": "count", "false": "end"},
    }
    result = await run(
        count, again, python("end", says(1), final=True), **channel(counted, default=[])
    )
    assert result.tasks["count"].output == rounds
    assert len(calls) < 5 * rounds
