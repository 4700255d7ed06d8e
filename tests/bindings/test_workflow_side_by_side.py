"""Branches and items: their concurrency, their order, and the effect of failures on others."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from lorebind_bindings import Update
from lorebind_config.errors import UsageError

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
    wait,
    workflows,
)

ITEM = {"item": "{{ .item }}"}
LIST_OF_ERRORS = {"errors": "{{ .state.errors }}"}


def appended(value: list[Any], update: Any) -> list[Any]:
    return [*value, update]


class Crowd:
    """Counts concurrent work and its maximum."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.began: list[Any] = []

    async def work(self, item: Any = None) -> Any:
        self.began.append(item)
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(5):
            await asyncio.sleep(0)
        self.now -= 1
        return item


async def test_outputs_stand_in_the_order_of_the_items() -> None:
    """Outputs have the order of the items, whichever ends first; `index` is the position."""
    turn = {2: asyncio.Event(), 1: asyncio.Event(), 0: asyncio.Event()}
    turn[2].set()

    async def backwards(item: str, index: int) -> str:
        await turn[index].wait()
        if index:
            turn[index - 1].set()
        return f"{item}{index}"

    inputs = {**ITEM, "index": "{{ .index }}"}
    result = await run(collection("c", ["a", "b", "c"], python("t", backwards, args=inputs)))
    assert result.output == ["a0", "b1", "c2"]
    assert [item.output for item in result.tasks["c"].items] == ["a0", "b1", "c2"]
    assert {item.status for item in result.tasks["c"].items} == {"completed"}


async def test_items_of_several_collections_do_not_mix() -> None:
    """Each collection runs its own tasks, even for consecutive collections."""
    lists = [
        collection(f"c{number}", [0, 1], python(f"t{number}", says(number))) for number in range(5)
    ]
    outputs = {f"c{number}": f"{{{{ .tasks.c{number}.output }}}}" for number in range(5)}
    result = await run(*lists, outputs=outputs)
    assert result.output == {f"c{number}": [number, number] for number in range(5)}


async def test_each_item_has_a_chain_of_its_own() -> None:
    """A task of `tasks` sees earlier ones of its item; the last that ran gives the output."""
    double = python("double", lambda item: item * 2, args=ITEM)
    join = {"id": "told", "type": "aggregate", "outputs": {"was": "{{ .tasks.double.output }}"}}
    odd = {"id": "odd", "type": "aggregate", "outputs": {"x": 1}, "condition": "item % 2 == 1"}
    result = await run(collection("c", [1, 2, 3], double, join))
    assert result.output == [{"was": 2}, {"was": 4}, {"was": 6}]
    result = await run(collection("c", [1, 2], double, odd))
    assert result.output == [{"x": 1}, None]


async def test_a_filter_chooses_items() -> None:
    """Items for which the filter is true are processed; `index` is their original position."""
    inputs = {**ITEM, "index": "{{ .index }}"}
    pair = python("t", lambda item, index: [item, index], args=inputs)
    chosen = collection("c", [5, 6, 7, 8], pair, filter="item > 5 && index != 2")
    result = await run(chosen, outputs={"c": "{{ .tasks.c.output }}"})
    assert result.output == {"c": [[6, 1], [8, 3]]}
    assert (await run(collection("c", [], pair))).output == []


async def test_a_filter_sees_what_the_collection_sees() -> None:
    """A filter can compare an item with inputs, outputs of tasks, and the state."""
    limit = python("limit", lambda: Update(2, extra={"except": 4}))
    chosen = collection(
        "c",
        "{{ .input.list }}",
        python("t", lambda item: item, args=ITEM),
        filter="item > tasks.limit.output && item != state.extra.except",
    )
    inputs: Declared = {"input": {"list": {"type": "array"}}}
    result = await run(limit, chosen, inputs={"list": [1, 2, 3, 4, 5]}, **inputs)
    assert result.output == [3, 5]


async def test_too_long_a_list_is_refused() -> None:
    """More than `max_items` items fail the task before any item is processed."""
    crowd = Crowd()
    task = python("t", crowd.work)
    with task_fails(UsageError, "collection 'c' has 4 items, more than max_items"):
        await run(collection("c", [1, 2, 3, 4], task, max_items=3))
    assert crowd.began == []


@pytest.mark.parametrize("workers", [1, 3, 8])
async def test_no_more_than_max_workers_at_a_time(workers: int) -> None:
    """At most `max_workers` items are processed at a time, started in their order."""
    crowd = Crowd()
    items = list(range(12))
    task = python("t", crowd.work, args=ITEM)
    await run(collection("c", items, task, max_workers=workers))
    assert (crowd.most, crowd.began) == (workers, items)


@pytest.mark.parametrize("workers", [1, 2, None])
async def test_branches_at_a_time(workers: int | None) -> None:
    """At most `max_workers` branches run at a time; by default all of them."""
    crowd = Crowd()
    branches = [[python(f"a{at}", crowd.work), python(f"b{at}", crowd.work)] for at in range(4)]
    limit = {} if workers is None else {"max_workers": workers}
    await run(parallel("p", *branches, **limit))
    assert crowd.most == (workers or 4)


async def test_waiting_for_a_worker_is_no_work() -> None:
    """A task's timeout starts with the task, not while it waits for a worker."""

    async def work() -> None:
        await asyncio.sleep(0.05)

    slow = python("t", work, timeout_seconds=0.6)
    result = await run(collection("c", list(range(20)), slow, max_workers=1))
    assert result.status == "completed"


async def test_branches_do_not_wait_for_each_other() -> None:
    """A branch of five tasks completes while a task of another branch is still running."""
    last = asyncio.Event()

    async def until_the_last() -> None:
        await asyncio.wait_for(last.wait(), 30)

    async def step() -> None:
        pass

    async def tell() -> None:
        last.set()

    steps = [python(f"s{at}", step) for at in range(4)]
    long = python("long", until_the_last)
    result = await run(parallel("p", [*steps, python("s4", tell)], long))
    assert result.status == "completed"


async def test_paths_do_not_wait_for_each_other() -> None:
    """A path before a join does not wait for tasks of other paths."""
    last = asyncio.Event()

    async def until_the_last() -> str:
        await asyncio.wait_for(last.wait(), 30)
        return "long"

    async def tell() -> str:
        last.set()
        return "short"

    both = {"long": "{{ .tasks.long.output }}", "short": "{{ .tasks.c.output }}"}
    result = await run(
        python("start", says(1), on_success=to("long", "a")),
        python("long", until_the_last, on_success=to("join")),
        python("a", says(1), on_success=to("b")),
        python("b", says(1), on_success=to("c")),
        python("c", tell, on_success=to("join")),
        {"id": "join", "type": "aggregate", "outputs": both, "final": True},
    )
    assert result.output == {"long": "long", "short": "short"}


async def test_items_do_not_wait_for_each_other() -> None:
    """With two workers, one item's tasks complete while another item is still running."""
    others = asyncio.Semaphore(0)

    async def work(item: int) -> int:
        if item == 0:
            for _ in range(5):
                await asyncio.wait_for(others.acquire(), 30)
        else:
            others.release()
        return item

    task = python("t", work, args=ITEM)
    result = await run(collection("c", list(range(6)), task, max_workers=2))
    assert result.output == list(range(6))


class Fates:
    """Work that succeeds or fails, ending in the order 2, 0, and then 1 if allowed."""

    def __init__(self) -> None:
        self.first, self.second, self.third = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []

    async def work(self, item: int, fails: list[int]) -> str:
        waits = {2: None, 0: self.first, 1: self.second}[item]
        tells = {2: self.first, 0: self.second, 1: self.third}[item]
        try:
            if waits is not None:
                await asyncio.wait_for(waits.wait(), 30)
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            self.ended.append(f"{item} cancelled")
            raise
        tells.set()
        self.ended.append(f"{item}")
        if item in fails:
            raise ValueError(f"no {item}")
        return f"did {item}"


def works(kind: str, fates: Fates, fails: list[int], strategy: str) -> Declared:
    """Make three concurrent works, as items or as branches."""
    if kind == "collection":
        task = python("t", fates.work, args={**ITEM, "fails": fails})
        return collection("x", [0, 1, 2], task, strategy=strategy)
    branches = [
        python(f"t{item}", fates.work, args={"item": item, "fails": fails}) for item in range(3)
    ]
    return parallel("x", *branches, strategy=strategy)


def path(kind: str, item: int) -> str:
    return f"x[{item}].t" if kind == "collection" else f"x.t{item}"


KINDS = pytest.mark.parametrize("kind", ["collection", "parallel"])


@KINDS
async def test_wait_all_ends_all(kind: str) -> None:
    """All work ends, and then the task fails with the first failure in declared order."""
    fates = Fates()
    with task_fails(ValueError, "no 0") as caught:
        await run(works(kind, fates, [2, 0], "wait_all"))
    assert caught.value.path == path(kind, 0)
    assert fates.ended == ["2", "0", "1"]


@KINDS
async def test_fail_fast_cancels(kind: str) -> None:
    """The first failure cancels running work."""
    fates = Fates()
    with task_fails(ValueError, "no 2") as caught:
        await run(works(kind, fates, [2], "fail_fast"))
    assert caught.value.path == path(kind, 2)
    assert sorted(fates.ended) == ["0 cancelled", "1 cancelled", "2"]


async def test_fail_fast_begins_nothing_more() -> None:
    """Items that wait for a worker are not started after a failure."""
    began = []

    async def work(item: int) -> None:
        began.append(item)
        raise ValueError(item)

    task = python("t", work, args=ITEM)
    with task_fails(ValueError):
        await run(collection("c", [0, 1, 2], task, strategy="fail_fast", max_workers=1))
    assert began == [0]


@KINDS
async def test_best_effort_goes_without(kind: str) -> None:
    """The output of a failure is null; the failure is in the result and in channel `errors`."""
    fates = Fates()
    task = works(kind, fates, [2, 0], "best_effort")
    outputs = {"x": "{{ .tasks.x.output }}", **LIST_OF_ERRORS}
    result = await run(task, outputs=outputs)
    gave = [None, "did 1", None]
    parts = [f"t{item}" for item in range(3)]
    expected = gave if kind == "collection" else dict(zip(parts, gave, strict=True))
    assert result.output["x"] == expected
    assert [error["path"] for error in result.output["errors"]] == [path(kind, 0), path(kind, 2)]
    each = result.tasks["x"].items or [result.tasks[name] for name in parts]
    assert [result.status for result in each] == ["failed", "completed", "failed"]
    assert [result.error["message"] if result.error else "" for result in each] == [
        "no 0",
        "",
        "no 2",
    ]
    assert result.tasks["x"].status == "completed"


@KINDS
async def test_a_race_has_one_winner(kind: str) -> None:
    """The first success determines the output; failures are ignored, the others are cancelled."""
    fates = Fates()
    result = await run(works(kind, fates, [2], "race"), outputs={"x": "{{ .tasks.x.output }}"})
    assert fates.ended == ["2", "0", "1 cancelled"]
    expected: Any = ["did 0", None, None]
    if kind == "parallel":
        expected = {"t0": "did 0", "t1": None, "t2": None}
        assert [result.tasks[f"t{item}"].status for item in range(3)][::2] == [
            "completed",
            "failed",
        ]
    assert result.output == {"x": expected}


@KINDS
async def test_a_race_that_all_lose_fails(kind: str) -> None:
    """If all fail, the task fails with the first failure in declared order."""
    fates = Fates()
    with task_fails(ValueError, "no 0"):
        await run(works(kind, fates, [0, 1, 2], "race"))
    assert fates.ended == ["2", "0", "1"]


async def test_of_two_that_win_at_once_one_has_won() -> None:
    """If several racers end at the same moment, only one contributes its output and writes."""

    async def work(item: int) -> Update:
        return Update(item, messages=[{"role": "user", "content": str(item)}])

    race = collection(
        "c", list(range(8)), python("t", work, args=ITEM), strategy="race", max_workers=8
    )
    outputs = {"c": "{{ .tasks.c.output }}", "messages": "{{ .state.messages }}"}
    result = await run(race, outputs=outputs)
    (won,) = [output for output in result.output["c"] if output is not None]
    assert [message["content"] for message in result.output["messages"]] == [str(won)]


async def test_a_handled_failure_is_no_failure() -> None:
    """An item whose task handles its error has not failed."""
    fails = python("fails", raises(ValueError("no")), on_error=to("instead"), on_success=to("end"))
    instead = {
        "id": "instead",
        "type": "aggregate",
        "outputs": {"was": "{{ .error.message }}", "at": "{{ .error.task }}"},
        "final": True,
    }
    end = python("end", says("never"), final=True)
    result = await run(collection("c", [1], fails, instead, end, strategy="fail_fast"))
    assert result.output == [{"was": "no", "at": "fails"}]


async def test_parallel_in_collection_in_parallel() -> None:
    """Each level has its paths and outputs; inner tasks see outer outputs and their item."""
    paths = []

    async def work(item: int, before: str, context: Any) -> str:
        paths.append(context.path)
        return f"{before}{item}"

    inputs = {**ITEM, "before": "{{ .tasks.before.output }}"}
    inner = parallel("inner", python("a", work, args=inputs), python("b", work, args=inputs))
    lists = collection("lists", [1, 2], inner)
    other = collection(
        "other", [[3], [4, 5]], collection("deep", "{{ .item }}", python("d", work, args=inputs))
    )
    result = await run(
        python("before", says("x")),
        parallel("outer", lists, other),
        outputs={"all": "{{ .tasks.outer.output }}"},
    )
    assert result.output["all"] == {
        "lists": [{"a": "x1", "b": "x1"}, {"a": "x2", "b": "x2"}],
        "other": [["x3"], ["x4", "x5"]],
    }
    assert sorted(paths) == [
        "outer.lists[0].inner.a",
        "outer.lists[0].inner.b",
        "outer.lists[1].inner.a",
        "outer.lists[1].inner.b",
        "outer.other[0].deep[0].d",
        "outer.other[1].deep[0].d",
        "outer.other[1].deep[1].d",
    ]


async def test_results_of_branches_within_branches() -> None:
    """The tasks of all nested branches are in the result."""
    inner = parallel("inner", python("a", says(1)), python("b", says(2)))
    result = await run(parallel("outer", inner, python("c", says(3))))
    assert statuses(result) == dict.fromkeys(["outer", "inner", "a", "b", "c"], "completed")


async def test_items_that_ask_ask_all_at_once() -> None:
    """All items ask together despite fewer workers, and are answered by path in any groups."""
    done = []

    async def work(item: int, answer: Any) -> str:
        done.append(item)
        return f"{item}{answer or ''}"

    ask = wait("ask", condition="item != 2")
    after = python("after", work, args={**ITEM, "answer": "{{ .tasks.ask.output }}"})
    flows = workflows(flow(collection("c", [0, 1, 2, 3], ask, after, max_workers=1)))
    result = await flows.run("w", {}, thread_id="t")
    assert result.status == "waiting"
    assert [wait["path"] for wait in result.waiting] == ["c[0].ask", "c[1].ask", "c[3].ask"]
    assert done == [2]
    with pytest.raises(UsageError, match=r"several tasks 'ask' wait.*c\[0\].ask, c\[1\].ask"):
        await flows.resume("w", "t", {"ask": "x"})
    result = await flows.resume("w", "t", {"c[1].ask": "x"})
    assert [wait["path"] for wait in result.waiting] == ["c[0].ask", "c[3].ask"]
    result = await flows.resume("w", "t", {"c[0].ask": "y", "c[3].ask": "z"})
    assert (result.status, result.output) == ("completed", ["0y", "1x", "2", "3z"])
    assert done == [2, 1, 0, 3]


async def test_a_failed_item_stays_failed_while_others_wait() -> None:
    """With best_effort, a failure is a result: it is not run again when the run is resumed."""
    tries = []

    async def fail() -> None:
        tries.append(1)
        raise ValueError("no")

    def both(strategy: str) -> Declared:
        return parallel("p", python("bad", fail), wait("ask"), strategy=strategy)

    flows = workflows(flow(both("best_effort")))
    result = await flows.run("w", {}, thread_id="t")
    assert result.status == "waiting"
    result = await flows.resume("w", "t", {"ask": "yes"})
    assert result.output == {"bad": None, "ask": "yes"}
    assert (result.tasks["bad"].status, len(tries)) == ("failed", 1)


async def test_a_race_against_a_person() -> None:
    """A racer that succeeds wins over one that waits; otherwise the answer wins."""
    result = await run(parallel("p", wait("ask"), python("quick", says(1)), strategy="race"))
    assert (result.status, result.output) == ("completed", {"ask": None, "quick": 1})
    race = parallel("p", wait("ask"), python("bad", raises(ValueError())), strategy="race")
    flows = workflows(flow(race))
    result = await flows.run("w", {}, thread_id="t")
    assert result.status == "waiting"
    result = await flows.resume("w", "t", {"ask": "yes"})
    assert result.output == {"ask": "yes", "bad": None}


async def test_items_write_into_a_channel_in_their_order() -> None:
    """Writes have the order of the items; without a reducer, the error names two items."""
    turn = [asyncio.Event() for _ in range(3)]
    turn[2].set()

    async def backwards(item: int) -> Update:
        await turn[item].wait()
        turn[item - 1].set()
        return Update(seen=item)

    lists = collection("c", [0, 1, 2], python("t", backwards, args=ITEM))
    reduced = {"seen": {"reducers": [f"{__name__}:appended"], "default": []}}
    result = await run(lists, channels=reduced, outputs={"seen": "{{ .state.seen }}"})
    assert result.output == {"seen": [0, 1, 2]}
    both = r"tasks 'c\[0\].t' and 'c\[1\].t' both write channel 'seen'"
    with task_fails(UsageError, both):
        await run(lists, channels={"seen": {}})


@pytest.mark.parametrize("where", ["filter", "condition"])
async def test_a_long_list_in_a_condition_of_each_item(where: str) -> None:
    """A long list in a condition is converted once, not per item, so it costs about nothing."""

    async def seconds(condition: str) -> float:
        inputs = [{"id": at, "text": f"text {at}"} for at in range(800)]
        rows = python("rows", says(inputs))
        task = python("t", says(1), **({"condition": condition} if where == "condition" else {}))
        chosen = {"filter": condition} if where == "filter" else {}
        each = collection("c", "{{ .tasks.rows.output }}", task, **chosen)
        began = time.process_time()
        await run(rows, each)
        return time.process_time() - began

    few = await seconds("item.id < 3")
    assert await seconds("item.id < 3 && size(tasks.rows.output) == 800") < few + 1.0
