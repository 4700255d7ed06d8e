"""The gauge of background runs: those that run, and those that wait for an answer."""

from __future__ import annotations

from pathlib import Path

from lorebind_knowledge.plumbing.bridge import call
from lorebind_knowledge.records import Overview

from .test_background_runs import begin, until
from .test_workflow_limits import in_process
from .test_workflows import REFUND

ANSWERS = {"approve": {"ok": True}}


async def test_waiting_runs_are_counted_until_they_are_answered(tmp_path: Path) -> None:
    """Also if somebody answers without a server."""
    async with in_process(tmp_path) as (server, api):

        async def waiting() -> int:
            state: Overview = await call(server.workflow_runs.overview)
            assert state.background_runs["triage", "running"] == 0
            return state.background_runs["triage", "waiting"]

        threads = []
        for path, body in (
            ("triage/runs", {**REFUND, "thread_id": "w", "interrupt_before": ["kind"]}),
            ("triage/threads/w/resume", {}),  # the same thread, which now waits for an answer
            ("triage/runs", REFUND),
        ):
            where, run = await begin(api, path, body)
            await until(api, where, "waiting")
            threads.append(run["thread_id"])
        metrics = (await api.get("http://localhost/metrics")).text
        assert 'lorebind_background_runs{state="waiting",workflow="triage"} 2.0' in metrics
        where, _ = await begin(api, "triage/threads/w/resume", {"answers": ANSWERS})
        await until(api, where, "completed")
        assert await waiting() == 1
        await server.project.aresume("triage", threads[-1], ANSWERS)
        assert await waiting() == 0
