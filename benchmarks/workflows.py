"""Compare workflows with the same graphs written by hand with LangGraph, in one process.

    python benchmarks/workflows.py [--rounds 5]

Both use a checkpointer of the same kind, a new SQLite file each, with `durability="sync"`. It
prints seconds and ratios (below 1: Lorebind is faster), the sizes of the files, and the duration of
parallel branches compared with the longest of them.
"""

from __future__ import annotations

import argparse
import asyncio
import operator
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from lorebind import Project

TASKS, ITEMS, TEXT = 100, 1000, "x" * 1000

STEPS = f"""
import asyncio

async def write():
    return "x" * {len(TEXT)}

async def work(item):
    return item + 1

async def sleep(seconds):
    await asyncio.sleep(seconds)
    return seconds
"""


def declarations() -> dict[str, Any]:
    chain = [{"id": f"t{i}", "type": "python", "call": "steps:write"} for i in range(TASKS)]
    each = {"id": "work", "type": "python", "call": "steps:work", "with": {"item": "{{ .item }}"}}
    nap = {"type": "python", "call": "steps:sleep"}
    branches = [
        {**nap, "id": "long", "with": {"seconds": 1.0}},
        [{**nap, "id": f"short{i}", "with": {"seconds": 0.2}} for i in range(5)],
    ]
    return {
        "name": "bench",
        "workflows": [
            {"id": "chain", "tasks": chain},
            {
                "id": "items",
                "input": {"list": {"type": "array"}},
                "tasks": [
                    {
                        "id": "all",
                        "type": "collection",
                        "items": "{{ .input.list }}",
                        "max_workers": 4,
                        "task": each,
                    }
                ],
            },
            {
                "id": "branches",
                "tasks": [{"id": "both", "type": "parallel", "branches": branches}],
            },
        ],
    }


def _merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {**left, **right}


class Outputs(TypedDict):
    out: Annotated[dict[str, Any], _merged]


class Numbers(TypedDict):
    numbers: list[int]
    out: Annotated[list[int], operator.add]


def chain_by_hand(saver: Any) -> Any:
    graph = StateGraph(Outputs)
    before = START
    for i in range(TASKS):

        async def node(state: Outputs, name: str = f"t{i}") -> Any:
            return {"out": {name: TEXT}}

        graph.add_node(f"t{i}", node)
        graph.add_edge(before, f"t{i}")
        before = f"t{i}"
    graph.add_edge(before, END)
    return graph.compile(checkpointer=saver)


def items_by_hand(saver: Any) -> Any:
    graph = StateGraph(Numbers)

    async def work(state: Any) -> Any:
        return {"out": [state["item"] + 1]}

    graph.add_node("work", work)
    graph.add_conditional_edges(
        START, lambda state: [Send("work", {"item": one}) for one in state["numbers"]], ["work"]
    )
    graph.add_edge("work", END)
    return graph.compile(checkpointer=saver)


async def by_hand(file: Path, graph: Callable[[Any], Any], given: Any) -> float:
    async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
        compiled = graph(saver)
        await saver.setup()
        config = {"configurable": {"thread_id": "one"}, "recursion_limit": TASKS + 10}
        return await timed(compiled.ainvoke(given, config, durability="sync"))


async def timed(work: Awaitable[object]) -> float:
    begun = time.perf_counter()
    await work
    return time.perf_counter() - begun


def folder_of(path: Path) -> Path:
    path.mkdir()
    (path / "steps.py").write_text(STEPS)
    return path


async def ours(folder: Path, workflow: str, given: dict[str, Any]) -> tuple[float, int]:
    """Return the seconds, and the size of the threads' file afterwards."""
    async with Project.build(declarations(), root=folder) as project:
        await project.arun("branches", interrupt_before=["both"])  # opens the file, imports
        seconds = await timed(project.arun(workflow, given))
    return seconds, _size(folder / ".lorebind" / "threads.db")


def _size(file: Path) -> int:
    return sum(one.stat().st_size for one in file.parent.glob(f"{file.name}*"))


async def main(rounds: int) -> None:
    numbers = list(range(ITEMS))
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        for name, given, graph, input_ in (
            (f"{TASKS} tasks in a row, {len(TEXT)} B each", {}, chain_by_hand, {"out": {}}),
            (f"{ITEMS} items", {"list": numbers}, items_by_hand, {"numbers": numbers, "out": []}),
        ):
            workflow = "items" if given else "chain"
            ratios, seconds, hand, size, hand_size = [], 0.0, 0.0, 0, 0
            for round_ in range(rounds):
                seconds, size = await ours(folder_of(root / f"{workflow}{round_}"), workflow, given)
                file = root / f"{workflow}{round_}.db"
                hand = await by_hand(file, graph, input_)
                hand_size = _size(file)
                ratios.append(seconds / hand)
            print(
                f"{name}: {statistics.median(ratios):.2f} of LangGraph by hand "
                f"({min(ratios):.2f} to {max(ratios):.2f}); last {seconds:.2f} s, {hand:.2f} s; "
                f"file {size / 1e6:.2f} MB, {hand_size / 1e6:.2f} MB"
            )
        seconds, _ = await ours(folder_of(root / "branches"), "branches", {})
        print(f"five tasks of 0.2 s beside one of 1.0 s: {seconds:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
