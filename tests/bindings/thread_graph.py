"""A graph like that of the runtime: a single node that stores its progress in the journal."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from lorebind_bindings.workflow.threads.threads import Thread, ThreadStore, open_threads
from lorebind_config.declarations.workflows import CheckpointerDeclaration
from lorebind_config.templates import Environment

THREAD = Thread("default", "shop", "triage", "ticket 7")
WAITS = {"task": "approve", "path": "approve", "prompt": "Pay?", "schema": {"type": "boolean"}}
GRAPH = {"a": "1f", "b": "2e"}


class State(TypedDict, total=False):
    input: Any
    output: Any
    messages: list[str]
    status: str


async def opened(root: Path, dsn: str | None = None, **declared: Any) -> ThreadStore:
    """Open the threads of a project in this folder, or in PostgreSQL."""
    if dsn is not None:
        declared = {"type": "postgres", "dsn": "{{ .env.THREADS_DSN }}", **declared}
    environ = {"THREADS_DSN": dsn} if dsn else {}
    return await open_threads(CheckpointerDeclaration(**declared), Environment(root, environ))


def listed(folder: Path) -> list[str]:
    """Return the names of all files below a folder."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


class Triage:
    """Stores three records, fails if it should, asks a question, and ends."""

    def __init__(self, store: ThreadStore, thread: Thread = THREAD) -> None:
        self.store, self.thread = store, thread
        self.failure: Exception | None = None
        self.asks = True
        self.ran: list[str] = []
        """The steps that ran because the journal did not have them."""
        graph = StateGraph(State)
        graph.add_node("tasks", self.tasks)
        graph.add_edge(START, "tasks")
        graph.add_edge("tasks", END)
        self.compiled = graph.compile(checkpointer=store.saver)

    async def run(self, inputs: Any) -> Any:
        config = self.thread.config
        config["metadata"]["graph"] = GRAPH
        async with self.store.claimed(self.thread):
            return await self.compiled.ainvoke(inputs, config, durability="sync")

    async def turn(self, value: Any) -> Any:
        """Add new input to the thread."""
        return await self.run({"input": value, "status": "running"})

    async def tasks(self, state: State) -> State:
        journal = await self.store.journal(self.thread)
        for name in "abc":
            if name not in journal.records:
                await journal.put({"key": name, "output": f"{name} of {state['input']}"})
                self.ran.append(name)
            if name == "b" and self.failure:
                raise self.failure
        if self.asks and "approve" not in journal.records:
            answer = interrupt({"waiting": [WAITS], "paused": []})
            await journal.put({"key": "approve", "output": answer["approve"]})
        outputs = {key: record["output"] for key, record in journal.records.items()}
        messages = [*state.get("messages", []), "answered"]
        return {"output": outputs, "messages": messages, "status": "completed"}


class Endless(Triage):
    """Four workers that print the number of each record after it is stored."""

    async def tasks(self, state: State) -> State:
        journal = await self.store.journal(self.thread)
        numbers = iter(range(len(journal.records), 1_000_000))

        async def work() -> None:
            for number in numbers:
                await journal.put({"key": f"items[{number}]", "output": number})
                print(number, flush=True)

        await asyncio.gather(*(work() for _ in range(4)))
        return state


async def _journal(store: ThreadStore) -> None:
    info = await store.find(THREAD)
    await (Endless(store).run(None) if info else Endless(store).turn("items"))


async def _hold(store: ThreadStore) -> None:
    async with store.claimed(THREAD):
        print("claimed", flush=True)
        await asyncio.sleep(600)


async def _main(what: str, root: str, dsn: str | None = None) -> None:
    store = await opened(Path(root), dsn)
    await {"journal": _journal, "hold": _hold}[what](store)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
