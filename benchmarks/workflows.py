"""Compare workflows with the same graphs written by hand with LangGraph, in one process.

    python benchmarks/workflows.py [--rounds 5]

Both use a checkpointer of the same kind, first in memory, then in a new SQLite file each, with
`durability="sync"`. It prints ratios of processor time (below 1: Lorebind is faster), the last
seconds, the sizes of the files, and the duration of parallel branches compared with the longest of
them.
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

from langgraph.checkpoint.memory import InMemorySaver
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


def declarations(checkpointer: str) -> dict[str, Any]:
    chain = [{"id": f"t{i}", "type": "python", "call": "steps:write"} for i in range(TASKS)]
    each = {"id": "work", "type": "python", "call": "steps:work", "with": {"item": "{{ .item }}"}}
    nap = {"type": "python", "call": "steps:sleep"}
    branches = [
        {**nap, "id": "long", "with": {"seconds": 1.0}},
        [{**nap, "id": f"short{i}", "with": {"seconds": 0.2}} for i in range(5)],
    ]
    return {
        "name": "bench",
        "checkpointer": {"type": checkpointer},
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
        START,
        lambda state: [Send("work", {"item": number}) for number in state["numbers"]],
        ["work"],
    )
    graph.add_edge("work", END)
    return graph.compile(checkpointer=saver)


async def by_hand(
    checkpointer: str, file: Path, graph: Callable[[Any], Any], state: Any
) -> tuple[float, float]:
    async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
        await saver.setup()
        compiled = graph(saver if checkpointer == "sqlite" else InMemorySaver())
        config = {"configurable": {"thread_id": "one"}, "recursion_limit": TASKS + 10}
        return await timed(compiled.ainvoke(state, config, durability="sync"))


async def timed(work: Awaitable[object]) -> tuple[float, float]:
    """Return the seconds that the work took, and the processor time of all threads."""
    begun, used = time.perf_counter(), time.process_time()
    await work
    return time.perf_counter() - begun, time.process_time() - used


def folder_of(path: Path) -> Path:
    path.mkdir()
    (path / "steps.py").write_text(STEPS)
    return path


async def ours(
    checkpointer: str, folder: Path, workflow: str, inputs: dict[str, Any]
) -> tuple[float, float]:
    async with Project.build(declarations(checkpointer), root=folder) as project:
        await project.arun("branches", interrupt_before=["both"])  # opens the file, imports
        return await timed(project.arun(workflow, inputs))


def _size(file: Path) -> int:
    return sum(path.stat().st_size for path in file.parent.glob(f"{file.name}*"))


async def compare(
    checkpointer: str, workflow: str, graph: Callable[[Any], Any], root: Path, rounds: int
) -> str:
    """Run a workflow and the same graph by hand in turns, and return a line about both."""
    numbers = list(range(ITEMS))
    inputs = {"list": numbers} if workflow == "items" else {}
    state = {"numbers": numbers, "out": []} if workflow == "items" else {"out": {}}
    ratios, seconds, seconds_by_hand = [], 0.0, 0.0
    for number in range(rounds):
        folder = root / f"{checkpointer}-{workflow}-{number}"
        file = folder.with_suffix(".db")
        seconds, used = await ours(checkpointer, folder_of(folder), workflow, inputs)
        seconds_by_hand, used_by_hand = await by_hand(checkpointer, file, graph, state)
        ratios.append(used / used_by_hand)
    line = (
        f"{statistics.median(ratios):.2f} of LangGraph by hand ({min(ratios):.2f} to "
        f"{max(ratios):.2f}); last {seconds:.2f} s, {seconds_by_hand:.2f} s"
    )
    if checkpointer == "sqlite":
        sizes = _size(folder / ".lorebind" / "threads.db"), _size(file)
        line += f"; file {sizes[0] / 1e6:.2f} MB, {sizes[1] / 1e6:.2f} MB"
    return line


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for checkpointer in ("memory", "sqlite"):
            for name, workflow, graph in (
                (f"{TASKS} tasks in a row, {len(TEXT)} B each", "chain", chain_by_hand),
                (f"{ITEMS} items", "items", items_by_hand),
            ):
                line = await compare(checkpointer, workflow, graph, Path(scratch), rounds)
                print(f"{name}, {checkpointer}: {line}")
        folder = folder_of(Path(scratch) / "branches")
        seconds, _ = await ours("sqlite", folder, "branches", {})
        print(f"five tasks of 0.2 s beside one of 1.0 s: {seconds:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    asyncio.run(main(parser.parse_args().rounds))
