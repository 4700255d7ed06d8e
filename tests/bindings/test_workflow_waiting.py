"""Runs that wait for answers or are paused: their questions and answers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import Update, Workflows
from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_config.errors import NotFoundError, ThreadRefusedError, UsageError

from .workflow_helpers import (
    Declared,
    begun,
    collection,
    flow,
    info,
    parallel,
    paths,
    python,
    raises,
    run,
    says,
    statuses,
    to,
    wait,
    workflows,
)

OK = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}


async def test_a_question_is_told_and_its_answer_is_the_output() -> None:
    """The run waits with task, path, prompt and schema; the answer is the task's output."""
    ask = wait("ask", prompt="Pay {{ .tasks.read.output }}?", schema=OK)
    flows, result = await begun(python("read", says(5)), ask, python("after", says("paid")))
    question = {"task": "ask", "path": "ask", "prompt": "Pay 5?", "schema": OK}
    assert (result.status, result.waiting, result.output) == ("waiting", [question], None)
    assert statuses(result) == {"read": "completed"}
    result = await flows.resume("w", "t", {"ask": {"ok": True}})
    assert (result.status, result.output, result.waiting) == ("completed", "paid", [])
    assert result.tasks["ask"].output == {"ok": True}


async def test_what_needs_no_answer_goes_on() -> None:
    """Independent tasks run, a join waits, answers come one by one, and nothing runs again."""
    ran: list[str] = []

    async def note(name: str) -> str:
        ran.append(name)
        return name

    async def joined(a: str, b: str, quick: str) -> list[str]:
        ran.append("join")
        return [a, b, quick]

    outputs = {name: f"{{{{ .tasks.{name}.output }}}}" for name in ("a", "b", "quick")}
    flows, result = await begun(
        python("start", note, args={"name": "start"}, on_success=to("a", "b", "quick")),
        wait("a", on_success=to("after_a")),
        python("after_a", note, args={"name": "after_a"}, on_success=to("join")),
        wait("b", on_success=to("join")),
        python("quick", note, args={"name": "quick"}, on_success=to("join")),
        python("join", joined, args=outputs, final=True),
    )
    assert (paths(result), ran) == (["a", "b"], ["start", "quick"])
    result = await flows.resume("w", "t", {"a": "A"})
    assert (result.status, paths(result)) == ("waiting", ["b"])
    assert ran == ["start", "quick", "after_a"]
    result = await flows.resume("w", "t")
    assert (result.status, paths(result)) == ("waiting", ["b"])
    result = await flows.resume("w", "t", {"b": None})
    assert result.output == ["A", None, "quick"]
    assert ran == ["start", "quick", "after_a", "join"]


async def test_questions_are_told_in_the_order_of_their_tasks() -> None:
    """Questions have the order of their tasks, whichever is reached first."""
    names = [f"ask{number}" for number in range(8)]
    for _ in range(5):
        start = python("start", says(1), on_success=to(*names))
        asks = [wait(name, on_success=to("end")) for name in names]
        result = await run(start, *asks, python("end", says(1), final=True))
        assert paths(result) == names


async def test_an_answer_may_ask_again() -> None:
    """Later questions are asked when they are reached, and in each round of a loop."""
    ask = wait("ask", on_success=to("enough"))
    enough = {
        "id": "enough",
        "type": "router",
        "condition": "tasks.ask.output",
        "routes": {"yes": "end"},
        "default": "ask",
    }
    flows, result = await begun(ask, enough, python("end", says("done"), final=True))
    assert paths(result) == ["ask"]
    result = await flows.resume("w", "t", {"ask": "no"})
    assert paths(result) == ["ask#2"]
    result = await flows.resume("w", "t", {"ask": "no"})
    assert paths(result) == ["ask#3"]
    result = await flows.resume("w", "t", {"ask#3": "yes"})
    assert (result.status, result.output) == ("completed", "done")
    answers = [
        record["output"] for record in await flows.history("w", "t") if record["path"][:3] == "ask"
    ]
    assert answers == ["no", "no", "yes"]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"ask": {"ok": 3}}, r"answer to task 'ask' does not match its schema: 3 .*, at \$\.ok;"),
        ({"ask": 3}, "answer to task 'ask' does not match its schema: 3 is not of type 'object'"),
        ({"aks": {"ok": True}}, "no task 'aks' waits for an answer; did you mean 'ask'"),
        ({"start": 1}, "no task 'start' waits for an answer"),
        (
            {"ask": {"ok": True}, "free": float("nan")},
            "answer to task 'p.free' is not JSON: .* nan",
        ),
        ({"free": object()}, "answer to task 'p.free' is not JSON: a value of type object"),
        ({"free": {"x": {1: 2}}}, r"'p.free' is not JSON at \['x'\]: a mapping with the key 1"),
    ],
)
async def test_an_answer_that_does_not_fit_changes_nothing(
    answers: dict[str, Any], message: str
) -> None:
    """An invalid answer is named, no answer of the call is stored, and the thread still waits."""
    flows, _ = await begun(
        python("start", says(1)), parallel("p", wait("ask", schema=OK), wait("free"))
    )
    before = await info(flows)
    answers = {
        name if name in ("aks", "start") else f"p.{name}": answer
        for name, answer in answers.items()
    }
    message = message.replace("task 'ask'", "task 'p.ask'")
    with pytest.raises(UsageError, match=message):
        await flows.resume("w", "t", answers)
    assert await info(flows) == before
    result = await flows.resume("w", "t", {"ask": {"ok": True}, "free": [1, {"x": None}]})
    assert result.output == {"ask": {"ok": True}, "free": [1, {"x": None}]}


async def test_a_resume_tells_everything_once() -> None:
    """Answers are stored before anything runs, and no task is reported as started twice."""
    started, answered = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        await asyncio.wait_for(answered.wait(), 30)

    async def tell() -> None:
        answered.set()

    route = {"id": "route", "type": "router", "condition": "1", "routes": {"1": "b", "2": "no"}}
    second = [wait("b", on_success=to("tell")), python("tell", tell, final=True)]
    branches = [[wait("a"), python("slow", slow)], [route, *second, wait("no", final=True)]]
    flows, result = await begun(parallel("p", *branches), wait("last"))
    assert paths(result) == ["p.a", "p.b"]
    resumed = asyncio.create_task(flows.resume("w", "t", {"a": 1}))
    await started.wait()
    resumed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resumed
    bus = EventBus("t")
    with bus.subscribe() as events:
        result = await flows.resume("w", "t", {"b": 2}, bus=bus)
        await bus.close()
        types = [(event.type, event.path) for event in events]
    assert paths(result) == ["last"]
    assert sorted(types) == sorted(set(types))
    assert ("task_start", "p") in types


async def test_an_answer_is_judged_by_the_schema_of_now(tmp_path: Path) -> None:
    """If the schema has changed since the question was asked, the task asks again."""

    def project(kind: str) -> Workflows:
        tasks = flow(parallel("p", wait("ask", schema={"type": kind}), wait("go")))
        return workflows(tasks, root=tmp_path, checkpointer={"type": "sqlite"})

    flows = project("integer")
    result = await flows.run("w", {}, thread_id="t")
    await flows.close()
    assert paths(result) == ["p.ask", "p.go"]
    flows = project("string")
    result = await flows.resume("w", "t", {"ask": 5})
    assert paths(result) == ["p.ask", "p.go"]
    assert (await info(flows)).waiting == result.waiting
    result = await flows.resume("w", "t", {"ask": "five"})
    assert paths(result) == ["p.go"]
    await flows.close()


async def test_a_waiting_thread_takes_no_input() -> None:
    """New input is refused with a suggested fix, and the answers given so far are preserved."""
    flows, _ = await begun(parallel("p", wait("a"), wait("b")))
    await flows.resume("w", "t", {"a": 1})
    with pytest.raises(ThreadRefusedError, match=r"'t' of workflow 'w' waits for answers.*resume"):
        await flows.run("w", {}, thread_id="t")
    result = await flows.resume("w", "t", {"b": 2})
    assert result.output == {"a": 1, "b": 2}


async def test_a_completed_thread_gives_its_result() -> None:
    """A repeated resume gives the result; an answer that the thread did not get is refused."""
    skips = python("skips", says(1), condition="false")
    inner = parallel("p", wait("b"), python("c", says("c")), update={"extra": {"x": 1}})
    flows, _ = await begun(skips, wait("a"), inner, python("end", says("ended")))
    await flows.resume("w", "t", {"a": 1})
    result = await flows.resume("w", "t", {"p.b": 2})
    assert result.output == "ended"
    for answers in (None, {"b": 2}, {"p.b": 2}, {"a": 1}):
        assert await flows.resume("w", "t", answers) == result
    for answers in ({"b": 3}, {"c": 2}):
        with pytest.raises(ThreadRefusedError, match="'t' of workflow 'w' has completed"):
            await flows.resume("w", "t", answers)
    assert (await info(flows)).status == "completed"


async def test_a_task_on_another_route_is_shown_again() -> None:
    """The result of a completed thread shows the tasks that did not run."""
    route = {"id": "r", "type": "router", "condition": "'x'", "routes": {"x": "b"}, "default": "c"}
    end = {"final": True}
    flows, result = await begun(route, python("b", says(1), **end), python("c", says(2), **end))
    assert await flows.resume("w", "t") == result
    assert result.tasks["c"].status == "skipped"


async def test_threads_that_cannot_be_resumed() -> None:
    """An unknown thread cannot be resumed."""
    flows, _ = await begun(python("a", says(1)))
    with pytest.raises(NotFoundError, match="workflow 'w' has no thread 'u'"):
        await flows.resume("w", "u")
    with pytest.raises(NotFoundError, match="workflow 'w' has no thread 'u'"):
        await flows.history("w", "u")
    with pytest.raises(NotFoundError, match="no workflow 'v'"):
        await flows.resume("v", "t")
    assert (await info(flows)).status == "completed"


async def test_a_changed_graph_is_refused(tmp_path: Path) -> None:
    """Changed tasks are named until restored; prompts, retries and conditions may change."""

    def project(*tasks: Declared) -> Workflows:
        place = {"type": "sqlite"}
        return workflows(flow(*tasks), root=tmp_path, checkpointer=place)

    ask, after = wait("ask"), python("after", says(1))
    before = project(ask, after)
    await before.run("w", {}, thread_id="t")
    await before.close()
    changed = {
        "'after', 'more'": (ask, python("more", says(1)), after),
        "'after'": (ask, {"id": "after", "type": "aggregate", "outputs": {"x": 1}}),
        "'after', 'ask'": (after, ask),
        "'ask'": (wait("ask", final=True),),
    }
    for names, tasks in changed.items():
        flows = project(*tasks)
        named = names if names != "'ask'" else "'after', 'ask'"
        with pytest.raises(ThreadRefusedError, match=f"changed since thread 't'.*: {named}; "):
            await flows.resume("w", "t", {"ask": 1})
        await flows.close()
    flows = project(
        wait("ask", prompt="Really?", condition="1 < 2", timeout_seconds=5),
        python("after", says(2), retry={"attempts": 2}),
    )
    result = await flows.resume("w", "t", {"ask": 1})
    assert (result.status, result.output) == ("completed", 2)
    await flows.close()


async def test_a_new_turn_keeps_the_conversation() -> None:
    """A new turn preserves messages and extra, resets errors and channels, and runs tasks again."""
    tasks = (
        python("bad", raises(ValueError("no")), on_error=to("say"), on_success=to("say")),
        python(
            "say",
            lambda text, context: Update(
                context.state["count"],
                messages=[{"role": "user", "content": text}],
                extra={text: True},
                count=1,
            ),
            args={"text": "{{ .input.text }}"},
            final=True,
        ),
    )
    flows = workflows(flow(*tasks, input={"text": {}}, channels={"count": {"default": 0}}))
    for text in ("one", "two"):
        result = await flows.run("w", {"text": text}, thread_id="t")
        assert result.output == 0
        state = await flows.state("w", "t")
        assert len(state["errors"]) == 1
    assert [message["content"] for message in state["messages"]] == ["one", "two"]
    assert (state["extra"], state["channels"]) == ({"one": True, "two": True}, {"count": 1})
    assert [record["turn"] for record in await flows.history("w", "t")] == [1, 1, 2, 2]


async def test_a_turn_that_waits_after_another() -> None:
    """Answers of an earlier turn do not count in a later one."""
    flows, _ = await begun(wait("ask"))
    await flows.resume("w", "t", {"ask": "first"})
    result = await flows.run("w", {}, thread_id="t")
    assert paths(result) == ["ask"]
    result = await flows.resume("w", "t", {"ask": "second"})
    assert result.output == "second"


async def test_pausing_before_a_task() -> None:
    """The run pauses before a task while others run; resumed, it pauses before the next one."""
    ran: list[str] = []

    async def note(name: str) -> str:
        ran.append(name)
        return name

    tasks = [python(name, note, args={"name": name}) for name in ("a", "b", "c")]
    flows = workflows(flow(*tasks))
    result = await flows.run("w", {}, thread_id="t", interrupt_before=["b", "c"])
    assert (result.status, result.paused, ran) == ("paused", ["b"], ["a"])
    assert (await info(flows)).status == "paused"
    with pytest.raises(ThreadRefusedError, match="is paused"):
        await flows.run("w", {}, thread_id="t")
    result = await flows.resume("w", "t", interrupt_before=["b", "c"])
    assert (result.status, result.paused, ran) == ("paused", ["c"], ["a", "b"])
    result = await flows.resume("w", "t")
    assert (result.status, result.output, ran) == ("completed", "c", ["a", "b", "c"])


async def test_pausing_inside() -> None:
    """Tasks of branches, items and rounds of a loop can be paused before too, each by its path."""
    inner = collection("c", [1, 2], python("i", says(1)))
    flows = workflows(flow(parallel("p", inner, python("b", says(2)))))
    result = await flows.run("w", {}, thread_id="t", interrupt_before=["i", "b"])
    assert result.paused == ["p.c[0].i", "p.c[1].i", "p.b"]
    result = await flows.resume("w", "t", interrupt_before=["i", "b"])
    assert (result.status, result.output) == ("completed", {"c": [1, 1], "b": 2})


async def test_paused_and_waiting_at_once() -> None:
    """Resuming without an answer starts the paused task, and the question stays open."""
    flows = workflows(flow(parallel("p", wait("ask"), python("b", says(2)))))
    result = await flows.run("w", {}, thread_id="t", interrupt_before=["b"])
    assert (result.status, paths(result), result.paused) == ("waiting", ["p.ask"], ["p.b"])
    result = await flows.resume("w", "t")
    assert (result.status, paths(result), result.paused) == ("waiting", ["p.ask"], [])
    result = await flows.resume("w", "t", {"ask": 1})
    assert result.output == {"ask": 1, "b": 2}


async def test_pausing_before_what_is_not_there() -> None:
    """An unknown task is rejected before anything runs, and no thread is created."""
    flows = workflows(flow(python("read", says(1))))
    with pytest.raises(NotFoundError, match="'w' has no task 'raed'; did you mean 'read'"):
        await flows.run("w", {}, thread_id="t", interrupt_before=["raed"])
    assert await flows.threads("w") == []


async def test_waiting_inside_another_workflow() -> None:
    """A composite's question is asked with its path, and its answer stays inside."""
    inner = {"id": "inner", "tasks": [wait("ask"), python("end", says("in"))]}
    outer = flow({"id": "sub", "type": "composite", "workflow": "inner"}, python("o", says("out")))
    flows = workflows(inner, outer)
    result = await flows.run("w", {}, thread_id="t")
    assert paths(result) == ["sub.ask"]
    result = await flows.resume("w", "t", {"sub.ask": 1})
    assert (result.output, result.tasks["sub"].output) == ("out", "in")


async def test_a_person_is_no_timeout() -> None:
    """The time spent waiting for an answer does not count towards a task's timeout."""
    result = await run(parallel("p", wait("ask", timeout_seconds=0.01), timeout_seconds=30))
    assert result.status == "waiting"
