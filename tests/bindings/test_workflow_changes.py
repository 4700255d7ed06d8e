"""Changes while a thread waits: its schemas, its graph and its database. Nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorebind_bindings import Workflows
from lorebind_bindings.workflow.threads.checkpointers import ThreadSaver
from lorebind_config.errors import StoreError, TaskError, ThreadRefusedError

from .workflow_helpers import Declared, flow, parallel, python, says, to, wait, workflows


def in_file(root: Path, *tasks: Declared) -> Workflows:
    return workflows(flow(*tasks), root=root, checkpointer={"type": "sqlite"})


async def test_an_answer_that_another_schema_took(tmp_path: Path) -> None:
    """An answer that no longer matches the schema is ignored, and the next valid one is used."""
    before = in_file(tmp_path, wait("ask", schema={"type": "object"}))
    await before.run("w", {}, thread_id="t")
    await before.close()
    now = in_file(tmp_path, wait("ask", schema={"type": "object", "required": ["ok"]}))
    assert (await now.resume("w", "t", {"ask": {"no": 1}})).status == "waiting"
    assert (await now.resume("w", "t", {"ask": {"ok": 1}})).output == {"ok": 1}
    await now.close()


async def test_a_replay_of_another_graph(tmp_path: Path) -> None:
    """A replay with a changed graph is refused, as for a resume, because its edges may differ."""
    first = in_file(tmp_path, python("a", says(1)), python("b", says(2)))
    await first.run("w", {}, thread_id="t")
    await first.close()
    changed = in_file(tmp_path, python("b", says(2)), python("a", says(1)))
    with pytest.raises(ThreadRefusedError, match=r"has changed since thread 't'.*'a', 'b'"):
        await changed.replay("w", "t", 1)
    await changed.close()


async def test_a_record_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write is not handled by `on_error`: the run ends and can be resumed."""
    real, failing = ThreadSaver.aput_writes, [StoreError("database is locked")]

    async def put(self: ThreadSaver, config: Any, writes: Any, *rest: Any) -> None:
        if failing and any(channel == "lorebind" for channel, _ in writes):
            raise failing.pop()
        await real(self, config, writes, *rest)

    monkeypatch.setattr(ThreadSaver, "aput_writes", put)
    box = parallel("box", python("x", says(1)), on_success=to("fine"), on_error=to("sorry"))
    ends = [python(name, says(name), final=True) for name in ("fine", "sorry")]
    flows = workflows(flow(box, *ends))
    with pytest.raises(StoreError, match="database is locked"):
        await flows.run("w", {}, thread_id="t")
    assert (await flows.resume("w", "t")).output == "fine"


async def test_what_a_loop_has_come_to_while_it_waits() -> None:
    """The result of a waiting loop has the last round of each task, including its branches."""
    drafts = iter(["first", "second"])
    flows = workflows(
        flow(
            parallel("both", python("draft", lambda: next(drafts)), on_success=to("ask")),
            wait("ask", on_success=to("enough")),
            {
                "id": "enough",
                "type": "router",
                "condition": "tasks.ask.output",
                "routes": {"true": "end", "false": "both"},
            },
            python("end", says("sent"), final=True),
        )
    )
    await flows.run("w", {}, thread_id="t")
    again = await flows.resume("w", "t", {"ask": False})
    assert again.status == "waiting"
    assert again.tasks["both"].output == {"draft": "second"}
    assert again.tasks["draft"].output == "second"


async def test_circles_that_are_entered_at_two_tasks() -> None:
    """Tokens that wait for each other continue in declared order, and none is left unused."""

    def router(name: str, condition: str, **routes: str | list[str]) -> Declared:
        return {"id": name, "type": "router", "condition": condition, "routes": routes}

    flows = workflows(
        flow(
            router("t0", "'a'", a=["t1", "note"], c="t4"),
            python("note", says("NOTE"), final=True),
            python("t1", says(0), on_success=to("t5", "t2")),
            python("t2", says(0), on_success=to("t5", "t4")),
            router("t4", "'a'", a="t6", c="t0"),
            router("t5", "'c'", a="t2", c="t1"),
            python("t6", says("END"), final=True),
            max_steps=30,
        )
    )
    with pytest.raises(TaskError, match="more than 30 tasks ran"):
        await flows.run("w", {})
