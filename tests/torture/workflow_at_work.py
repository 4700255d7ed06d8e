"""A workflow that processes a list, and records its work where a kill cannot lose it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

# These are imported once, before the processes are forked.
import langgraph.checkpoint.postgres
import langgraph.checkpoint.sqlite
import langgraph.pregel  # noqa: F401

from lorebind_bindings import ModelPool, Workflows
from lorebind_bindings.workflow.events.bus import EventBus
from lorebind_bindings.workflow.events.sinks import JsonLinesSink
from lorebind_bindings.workflow.threads import postgres_threads, sqlite_threads
from lorebind_config.reading.loading import load_project
from lorebind_knowledge import KnowledgeService

assert postgres_threads
assert sqlite_threads

ITEMS = 300
WORKERS = 4
PROJECT = f"""\
name: p
embedders: [{{ id: words, provider: hashing }}]
checkpointer: CHECKPOINTER
workflows:
  - id: w
    tasks:
      - id: list
        type: python
        call: "{__name__}:numbers"
        on_success: {{ next: all }}
      - id: all
        type: collection
        items: "{{{{ .tasks.list.output }}}}"
        max_workers: {WORKERS}
        task:
          id: one
          type: python
          call: "{__name__}:work"
          with: {{ number: "{{{{ .item }}}}" }}
        on_success: {{ next: last }}
      - id: last
        type: python
        call: "{__name__}:last"
        with: {{ all: "{{{{ .tasks.all.output }}}}" }}
        final: true
"""


def note(line: str) -> None:
    file = os.open("began", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, f"{line}\n".encode())
    os.close(file)


async def numbers() -> list[int]:
    note("list")
    return list(range(ITEMS))


async def work(number: int) -> int:
    note(str(number))
    await asyncio.sleep(random.random() * 0.004)
    return number * 2


async def last(all: list[int]) -> int:  # noqa: A002
    note("last")
    return sum(all)


def main() -> None:
    """Run or resume the thread `t` of the project in the current folder."""
    verb = sys.argv[1]
    random.seed()
    print(json.dumps(asyncio.run(_main(verb))))


async def _main(verb: str) -> object:
    loaded = load_project(Path())
    flows = Workflows(loaded, KnowledgeService(loaded), ModelPool(loaded))
    bus = EventBus("t")
    bus.attach([JsonLinesSink("events.jsonl")])
    try:
        if verb == "run":
            result = await flows.run("w", {}, thread_id="t", bus=bus)
        else:
            result = await flows.resume("w", "t", bus=bus)
        return result.tasks["all"].output, result.output
    finally:
        await bus.close()
        await flows.close()
