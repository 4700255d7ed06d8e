"""Concurrent runs do not mix, and only one run at a time uses a thread."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import RunResult, TaskContext, Update, Workflows
from lorebind_config.errors import NotFoundError, ThreadRefusedError
from lorebind_config.namespace import current_tenant, tenant
from lorebind_knowledge.plumbing.bridge import run as run_blocking
from tests.app.forked_python import ForkedPython

from .helpers import write
from .workflow_helpers import collection, flow, parallel, python, wait, workflows

RUNS = 100


async def work(name: str, context: TaskContext) -> Update:
    await asyncio.sleep(0)
    message = {"role": "user", "content": f"{current_tenant()} {name}"}
    return Update({"name": name, "tenant": current_tenant()}, messages=[message])


def plain(name: str, context: TaskContext) -> dict[str, str]:
    return {"name": name, "tenant": current_tenant(), "before": str(len(context.state["messages"]))}


def declared() -> dict[str, Any]:
    inputs = {"name": "{{ .input.name }}"}
    item = python("i", work, args={"name": "{{ .input.name }}{{ .item }}"})
    return flow(
        python("a", work, args=inputs),
        parallel("p", python("b", plain, args=inputs), collection("c", [0, 1], item)),
        wait("ask", prompt="{{ .input.name }}?"),
        input={"name": {}},
        outputs={
            "a": "{{ .tasks.a.output }}",
            "p": "{{ .tasks.p.output }}",
            "ask": "{{ .tasks.ask.output }}",
            "messages": "{{ .state.messages }}",
        },
    )


async def run_one(flows: Workflows, number: int) -> tuple[RunResult, RunResult]:
    """Run one of two tenants, which use the same thread ids."""
    with tenant(f"tenant{number % 2}"):
        name = f"run{number}"
        thread = f"thread{number // 2}"
        paused = await flows.run("w", {"name": name}, thread_id=thread)
        await asyncio.sleep(0)
        return paused, await flows.resume("w", thread, {"ask": name})


def check(number: int, paused: RunResult, result: RunResult) -> None:
    whose, name = f"tenant{number % 2}", f"run{number}"
    assert paused.waiting[0]["prompt"] == f"{name}?"
    mine = {"name": name, "tenant": whose}
    items = [{**mine, "name": f"{name}{item}"} for item in (0, 1)]
    assert result.output == {
        "a": mine,
        "p": {"b": {**mine, "before": "1"}, "c": items},
        "ask": name,
        "messages": [
            {"role": "user", "content": f"{whose} {name}{item}"} for item in ("", "0", "1")
        ],
    }


async def check_threads(flows: Workflows) -> None:
    for number in range(2):
        with tenant(f"tenant{number}"):
            infos = await flows.threads("w", limit=RUNS)
            assert Counter(info.status for info in infos) == {"completed": RUNS // 2}
            turns = await flows.history("w", "thread7")
            assert turns[0]["output"]["name"] == f"run{14 + number}"
    assert await flows.threads("w") == []


async def test_runs_of_two_tenants_do_not_mix() -> None:
    """A hundred concurrent runs on one loop see only their own tenant's data and threads."""
    flows = workflows(declared())
    results = await asyncio.gather(*(run_one(flows, number) for number in range(RUNS)))
    for number, (paused, result) in enumerate(results):
        check(number, paused, result)
    await check_threads(flows)
    with pytest.raises(NotFoundError, match="workflow 'w' has no thread 'thread7'"):
        await flows.history("w", "thread7")


def test_runs_from_threads_do_not_mix(tmp_path: Path) -> None:
    """Sync runs in several Python threads do not mix, with workflow threads in a file."""
    flows = workflows(declared(), root=tmp_path, checkpointer={"type": "sqlite"})

    def blocking(number: int) -> tuple[RunResult, RunResult]:
        return run_blocking(run_one(flows, number))

    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(blocking, range(RUNS)))
    for number, (paused, result) in enumerate(results):
        check(number, paused, result)
    run_blocking(check_threads(flows))
    run_blocking(flows.close())


async def test_a_thread_is_run_by_one_at_a_time() -> None:
    """A run on a thread that is in use is refused, and neither run loses anything."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await go_on.wait()
        return "done"

    flows = workflows(flow(python("a", slow)))
    first = asyncio.create_task(flows.run("w", {}, thread_id="t"))
    await begun.wait()
    for again in (flows.run("w", {}, thread_id="t"), flows.resume("w", "t")):
        with pytest.raises(ThreadRefusedError, match="thread 't' of workflow 'w' is running"):
            await again
    (info,) = await flows.threads("w")
    assert info.status == "running"
    go_on.set()
    assert (await first).output == "done"
    assert (await flows.run("w", {}, thread_id="t")).status == "completed"


STEPS = """
import pathlib, time
def slow():
    pathlib.Path("begun").touch()
    while not pathlib.Path("go_on").exists():
        time.sleep(0.01)
    return "done"
"""
PROJECT = """
name: p
embedders: [{ id: words, provider: hashing }]
workflows:
  - { id: w, tasks: [{ id: a, type: python, call: "steps:slow" }] }
"""
MAIN = """
import asyncio, json, sys
from lorebind_bindings import ModelPool, Workflows
from lorebind_config.reading.loading import load_project
from lorebind_knowledge import KnowledgeService
async def main():
    loaded = load_project(".")
    flows = Workflows(loaded, KnowledgeService(loaded), ModelPool(loaded))
    try:
        print(json.dumps((await flows.run("w", {}, thread_id="t")).output))
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
    await flows.close()
asyncio.run(main())
"""


def test_of_two_processes_one_is_refused(tmp_path: Path, forked: ForkedPython) -> None:
    """A process is refused a thread that another process runs, and the other completes it."""
    write(tmp_path, {"steps.py": STEPS, "lorebind.yaml": PROJECT})
    command = [str(forked.commands / "python"), "-c", MAIN]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as first:
        try:
            paused = threading.Event()
            while not (tmp_path / "begun").exists():
                assert first.poll() is None
                paused.wait(0.01)
            second = subprocess.run(
                command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True, timeout=60
            )
            message = json.loads(second.stdout)
            assert message.startswith("ThreadRefusedError: thread 't' of workflow 'w' is running")
        finally:
            (tmp_path / "go_on").touch()
        assert json.loads(first.communicate()[0]) == "done"
