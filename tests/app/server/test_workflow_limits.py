"""Workflow runs that take long, are interrupted, or are not allowed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from lorebind import Project
from lorebind.server.app import make_app
from lorebind.server.server import Server

from .desk import write_desk
from .in_process import problem
from .test_workflows import EVENTS, noted, wait_until_noted


@asynccontextmanager
async def in_process(folder: Path, seconds: float = 30) -> AsyncIterator[tuple[Server, Any]]:
    """Return a server without a process, with this time limit for answers."""
    server = Server(Project.load(write_desk(folder)))
    await server.start()
    transport = httpx.ASGITransport(make_app(server, seconds=seconds))
    url = "http://localhost/api/v0"
    async with httpx.AsyncClient(transport=transport, base_url=url, timeout=60) as api:
        yield server, api
    await server.stop()


async def test_a_run_that_takes_too_long_can_be_resumed(tmp_path: Path) -> None:
    async with in_process(tmp_path, seconds=2) as (server, api):
        await server.project.arun("slow", {"seconds": 0, "name": "first"})  # the slowest one
        body = {"input": {"seconds": 60, "name": "late"}}
        late = await api.post("/workflows/slow/runs", json=body)
        assert problem(late) == (504, "timeout")
        place = f"/workflows/slow/threads/{late.json()['thread_id']}"
        assert f"POST /api/v0{place}/resume" in late.json()["detail"]
        assert (await api.get(place)).json()["status"] == "interrupted"
        (tmp_path / "awake").touch()
        resumed = await api.post(f"{place}/resume", headers=EVENTS)
        assert "event: run_end" in resumed.text
        assert (await api.get(place)).json()["status"] == "completed"
    assert noted(tmp_path, "late") == 1


async def test_a_replay_may_take_longer_than_a_request(tmp_path: Path) -> None:
    """Events have no time limit; a JSON answer that takes too long is cancelled and resumable."""
    async with in_process(tmp_path, seconds=0.8) as (server, api):
        await server.project.arun("slow", {"seconds": 1, "name": "replayed"}, thread_id="r")
        place = "/workflows/slow/threads/r/replay"
        late = await api.post(place, json={"step": 1})
        assert problem(late) == (504, "timeout")
        done = await api.post(place, json={"step": 1, "thread_id": "again"}, headers=EVENTS)
        events = [line for line in done.text.splitlines() if line.startswith("data: ")]
        assert json.loads(events[0].removeprefix("data: "))["type"] == "run_start"
        result = json.loads(events[-1].removeprefix("data: "))["data"]["result"]
        assert (result["thread_id"], result["status"]) == ("again", "completed")
        refused = await api.post(place, json={"step": 9}, headers=EVENTS)
        assert problem(refused) == (422, "invalid_request")


async def test_a_run_that_is_cut_off_by_the_end_of_the_server_says_so(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (server, api):
        body = {"input": {"seconds": 60, "name": "cut"}, "thread_id": "c"}
        asking = asyncio.create_task(api.post("/workflows/slow/runs", json=body, headers=EVENTS))
        body = {**body, "thread_id": "j"}
        other = asyncio.create_task(api.post("/workflows/slow/runs", json=body))
        await asyncio.to_thread(wait_until_noted, tmp_path, "cut", 2)
        began = time.monotonic()
        await server.connected.stop()
        stream = (await asking).text
        assert time.monotonic() - began < 30
        (tmp_path / "awake").touch()
        assert stream.rstrip().splitlines()[-2] == "event: error"
        document = json.loads(stream.rstrip().splitlines()[-1].removeprefix("data: "))
        assert (document["code"], document["thread_id"]) == ("draining", "c")
        assert problem(await other) == (503, "draining")
        for thread in "cj":
            reply = await api.get(f"/workflows/slow/threads/{thread}")
            assert reply.json()["status"] == "interrupted"


async def test_runs_need_the_right_to_write(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (server, api):
        _, text = server.tokens.create("reader", "read")
        api.headers["Authorization"] = f"Bearer {text}"
        assert (await api.get("/workflows")).status_code == 200
        for path in ("answer/runs", "answer/threads/t/resume", "answer/threads/t/replay"):
            refused = await api.post(
                f"/workflows/{path}", json={"step": 0} if "replay" in path else {}
            )
            assert problem(refused) == (403, "forbidden")
