"""What is kept of tasks that fail, whether something handles the failure or not."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from lorebind_bindings.workflow.events.bus import EventBus

from .workflow_helpers import collection, flow, parallel, python, says, to, workflows

if TYPE_CHECKING:
    from pathlib import Path

    from .workflow_helpers import Declared

ITEM = {"item": "{{ .item }}"}
HANDLED: Declared = {"on_success": to("end"), "on_error": to("end")}
BEST_EFFORT: Declared = {"strategy": "best_effort"}


class CopyingBus(EventBus):
    """Copies the threads when a task is told to have failed, as a killed process leaves them."""

    def __init__(self, root: Path, copy: Path) -> None:
        super().__init__("t")
        self.root, self.copy = root, copy

    def publish(self, kind: Any, task: str, path: str, data: Any) -> None:
        super().publish(kind, task, path, data)
        if kind == "task_end" and data["status"] == "failed" and not self.copy.exists():
            shutil.copytree(self.root, self.copy)


class Picky:
    """Work that fails for the item 1, unless it is told otherwise."""

    def __init__(self) -> None:
        self.did: list[int] = []
        self.fails = True

    async def work(self, item: int = 1) -> int:
        self.did.append(item)
        if self.fails and item == 1:
            raise ValueError("no")
        return item

    def items(self, **keys: Any) -> Declared:
        task = python("t", self.work, given=ITEM)
        return collection("c", [0, 1, 2], task, max_workers=1, **keys)


@pytest.mark.parametrize("how", ["best effort", "on_error", "around", "branch", "composite"])
async def test_a_failure_is_durable_before_it_is_told(tmp_path: Path, how: str) -> None:
    """If something handles it and the process is killed once it is told, the task does not run
    again, and the run gives what it would have given."""
    picky = Picky()
    inner = {"id": "inner", "tasks": [python("b", picky.work)]}
    composite = {"id": "s", "type": "composite", "workflow": "inner"}
    first = {
        "best effort": picky.items(**BEST_EFFORT, on_success=to("end")),
        "on_error": picky.items(**HANDLED),
        "around": parallel("p", picky.items(), **HANDLED),
        "branch": parallel("p", python("b", picky.work), **BEST_EFFORT, on_success=to("end")),
        "composite": parallel("p", composite, **HANDLED),
    }[how]
    tasks = flow(first, python("end", says("end"), final=True), outputs={"was": "{{ .state }}"})
    kept = {"checkpointer": {"type": "sqlite"}}
    flows = workflows(tasks, inner, root=tmp_path / "live", **kept)
    bus = CopyingBus(tmp_path / "live", tmp_path / "killed")
    result = await flows.run("w", {}, thread_id="t", bus=bus)
    await flows.close()
    picky.did.clear()
    picky.fails = False
    flows = workflows(tasks, inner, root=tmp_path / "killed", **kept)
    again = await flows.resume("w", "t")
    await flows.close()
    assert (1 in picky.did, again.output) == (False, result.output)
