"""Runs of workflows in the background: begun, followed, cancelled, killed and taken over."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind.server.state.run_events import NewEvents, StoredEvent, StoredEvents
from lorebind.server.state.runs import WORKFLOW_RUNS, RequestedRuns
from lorebind.server.state.tokens import Rights
from lorebind.server.workflow_events import EventWriter, WorkflowEvents
from lorebind_bindings.workflow.events import RunEvent
from lorebind_config.errors import StoreError
from lorebind_config.namespace import Namespace
from lorebind_knowledge.database.databases import Database
from tests.app.forked_python import CONSTANTS

from .conftest import serving
from .desk import write_desk
from .in_process import problem
from .test_runs import SOON, database
from .test_workflow_limits import in_process
from .test_workflows import QUESTION, REFUND, noted

__all__ = ["database"]  # a fixture

ASYNC = {"Prefer": "respond-async"}
API = "/api/v0"


def slow(name: str, seconds: float = 0.0) -> dict[str, Any]:
    return {"input": {"seconds": seconds, "name": name}}


async def begin(
    api: httpx.AsyncClient, path: str, body: dict[str, Any], **headers: str
) -> tuple[str, dict[str, Any]]:
    """Begin a run in the background, and return its path and its data."""
    reply = await api.post(f"/workflows/{path}", json=body, headers={**ASYNC, **headers})
    assert reply.status_code == 202, reply.text
    assert reply.headers["preference-applied"] == "respond-async"
    return reply.headers["location"].removeprefix(API), reply.json()


async def until(api: httpx.AsyncClient, where: str, status: str) -> dict[str, Any]:
    """Wait until a run has a status, and return it."""
    deadline = time.monotonic() + 60
    while (run := (await api.get(where)).json())["status"] != status:
        assert run["status"] == "running", run
        assert time.monotonic() < deadline, run
        await asyncio.sleep(0.02)
    return dict(run)


async def appears(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(path.parent.glob(path.name)):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def followed(
    api: httpx.AsyncClient, where: str, after: int = 0
) -> list[tuple[int, str, dict[str, Any]]]:
    """Return the number, name and data of the events of a run to its end."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    return events_in((await api.get(f"{where}/events", headers=headers)).text)


def events_in(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """Parse server-sent events."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            number = int(fields.get("id", 0))
            events.append((number, fields["event"], json.loads(fields["data"])))
    return events


async def test_there_are_not_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run beyond the limit is refused and not stored; the next one begins when one has ended."""
    async with in_process(tmp_path) as (server, api):
        assert server.workflow_runs.most_requested == 200
        server.workflow_runs.most_requested = 1
        key = {"Idempotency-Key": "a"}
        where, _ = await begin(api, "slow/runs", slow("a", 60), **key)
        assert (await begin(api, "slow/runs", slow("a", 60), **key))[0] == where
        headers = {**ASYNC, "Idempotency-Key": "b"}
        refused = await api.post("/workflows/slow/runs", json=slow("b"), headers=headers)
        assert problem(refused) == (429, "rate_limited")
        assert refused.headers["retry-after"] == "5"
        assert "raise `server: { background_runs: … }`" in refused.json()["detail"]
        with monkeypatch.context() as patched:  # without a key, it is not even stored for a moment
            patched.delattr(RequestedRuns, "request")
            refused = await api.post("/workflows/slow/runs", json=slow("b"), headers=ASYNC)
            assert problem(refused) == (429, "rate_limited")
        assert len((await api.get("/workflows/slow/runs")).json()["items"]) == 1
        (tmp_path / "awake").touch()
        await until(api, where, "completed")
        where, _ = await begin(api, "slow/runs", slow("b"), **key | {"Idempotency-Key": "b"})
        await until(api, where, "completed")
    assert noted(tmp_path, "b") == 1


async def test_a_run_outlives_its_request(tmp_path: Path) -> None:
    """Several readers get all events, also late ones, and those that reconnect the rest."""
    async with in_process(tmp_path) as (_, api):
        where, begun = await begin(api, "slow/runs", slow("b", 60) | {"thread_id": "t"})
        assert (begun["status"], begun["thread_id"]) == ("running", "t")
        asyncio.get_running_loop().call_later(0.3, (tmp_path / "awake").touch)
        early, other = await asyncio.gather(followed(api, where), followed(api, where))
        run = await until(api, where, "completed")
        assert (run["output"], run["result"]["output"]) == ("\ud800", "\ud800")
        assert run["finished_at"] >= run["requested_at"]
        late = await followed(api, where)
        assert early == other == late
        numbers = [number for number, _, _ in late]
        assert numbers == list(range(1, len(late) + 1))
        assert all((data["seq"], data["type"]) == (i, name) for i, name, data in late)
        names = [name for _, name, _ in late]
        assert (names[0], names[-1]) == ("run_start", "run_end")
        assert late[-1][2]["data"]["result"] == run["result"]
        assert await followed(api, where, after=3) == late[3:]
        assert await followed(api, where, after=len(late)) == []
        (listed,) = (await api.get("/workflows/slow/runs")).json()["items"]
        assert listed == run
        assert (await api.delete(where)).json() == run  # it has ended
        unchanged = await api.get(where, headers={"If-None-Match": '"x"'})
        tag = {"If-None-Match": unchanged.headers["etag"]}
        assert (await api.get(where, headers=tag)).status_code == 304


async def test_a_request_with_a_key_is_one_run(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (_, api):
        key = {"Idempotency-Key": "once"}
        runs = await asyncio.gather(
            *(begin(api, "slow/runs", slow("k", 0.2), **key) for _ in range(8))
        )
        assert len({data["run_id"] for _, data in runs}) == 1
        other = await api.post("/workflows/slow/runs", json=slow("l"), headers=ASYNC | key)
        assert problem(other) == (422, "idempotency_mismatch")
        alone = await api.post("/workflows/slow/runs", json=slow("k"), headers=key)
        assert problem(alone) == (400, "invalid_header")
        ended = {"Prefer": "Respond-Async; foo, wait=20"}
        reply = await api.post("/workflows/answer/runs", json=QUESTION, headers=ended)
        assert (reply.status_code, reply.json()["status"]) == (200, "completed")
        assert reply.headers["preference-applied"] == "respond-async, wait=20"
    assert noted(tmp_path, "k") == 1


async def test_a_run_that_cannot_begin_is_refused(tmp_path: Path) -> None:
    """The answers are those of a request that waits, and nothing is stored."""
    async with in_process(tmp_path) as (_, api):
        await api.post("/workflows/triage/runs", json={**REFUND, "thread_id": "w"})
        for path, body, expected in (
            ("no/runs", {}, (404, "not_found")),
            ("answer/runs", {"input": {"question": 1}}, (422, "invalid_request")),
            ("triage/runs", {**REFUND, "thread_id": "w"}, (409, "thread_refused")),
            ("triage/threads/no/resume", {}, (404, "not_found")),
            ("triage/threads/w/replay", {"step": 9}, (422, "invalid_request")),
        ):
            waited = await api.post(f"/workflows/{path}", json=body)
            refused = await api.post(f"/workflows/{path}", json=body, headers=ASYNC)
            assert problem(waited) == problem(refused) == expected
            assert refused.json() == waited.json()
        for workflow in ("answer", "triage"):
            assert (await api.get(f"/workflows/{workflow}/runs")).json()["items"] == []


async def test_a_run_whose_client_has_its_id_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that takes long to find out that it cannot begin has failed: it is not refused."""
    monkeypatch.setattr("lorebind.server.background_runs._BEGIN_SECONDS", 0)
    async with in_process(tmp_path) as (_, api):
        where, _ = await begin(api, "triage/threads/no/resume", {})
        assert (await until(api, where, "failed"))["error"]["code"] == "not_found"


async def test_a_run_waits_is_resumed_and_replayed(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (_, api):
        paused = {**REFUND, "thread_id": "w", "interrupt_before": ["kind"]}
        where, _ = await begin(api, "triage/runs", paused)
        run = await until(api, where, "waiting")
        assert (run["result"]["status"], run["result"]["paused"]) == ("paused", ["kind"])
        where, _ = await begin(api, "triage/threads/w/resume", {})
        assert (await until(api, where, "waiting"))["result"]["waiting"][0]["task"] == "approve"
        answers = {"answers": {"approve": {"ok": True}}}
        where, _ = await begin(api, "triage/threads/w/resume", answers)
        assert (await until(api, where, "completed"))["output"]["paid"] == {"ok": True}
        where, begun = await begin(api, "triage/threads/w/replay", {"step": 0})
        assert begun["action"] == "replay"
        events = await followed(api, where)
        assert events[-1][2]["data"]["result"]["waiting"][0]["task"] == "approve"
        assert events[-1][2]["thread_id"] == begun["thread_id"] != "w"


async def test_a_run_that_fails_says_so(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (_, api):
        where, _ = await begin(api, "broken/runs", {})
        run = await until(api, where, "failed")
        assert (run["error"]["code"], run["error"]["task"]) == ("task_failed", "break")
        *_, end, error = await followed(api, where)
        assert (end[1], end[2]["data"]["status"], error[1]) == ("run_end", "failed", "error")
        assert error[2] == run["error"]
        stream = await api.post("/workflows/broken/runs", headers={"Accept": "text/event-stream"})
        waited = [event for event in events_in(stream.text) if event[1] == "run_end"]
        assert end[2]["data"]["error"].keys() == waited[0][2]["data"]["error"].keys()
        assert await followed(api, where, after=end[0]) == [error]


STUBBORN = """\
import asyncio
from pathlib import Path

asleep, awake = (Path(__file__).with_name(name) for name in ("asleep", "awake"))

async def sleep():
    asleep.touch()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        while not awake.exists():
            await asyncio.sleep(0.02)

def sleep_in_a_thread():
    import time
    asleep.touch()
    while not awake.exists():
        time.sleep(0.02)
"""


@pytest.mark.parametrize("function", ["sleep", "sleep_in_a_thread"])
async def test_a_run_is_cancelled_while_a_function_sleeps(tmp_path: Path, function: str) -> None:
    """The status does not wait for the function, and readers get the end at once."""
    task = {"id": "wait", "type": "python", "call": f"stubborn:{function}"}
    (tmp_path / "workflows").mkdir()
    declared = json.dumps({"id": "stubborn", "tasks": [task]})  # which is YAML, too
    (tmp_path / "workflows" / "stubborn.yaml").write_text(declared)
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    async with in_process(tmp_path) as (server, api):
        where, begun = await begin(api, "stubborn/runs", {})
        reading = asyncio.create_task(followed(api, where))
        await appears(tmp_path / "asleep")
        working = [under_way.task for under_way in server.workflow_runs._under_way.values()]
        cancelled = await api.delete(where)
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        *_, (_, name, end) = events = await reading
        assert (name, end["data"]["status"]) == ("run_end", "cancelled")
        if function == "sleep":  # a thread is left alone
            assert not working[0].done()
            (tmp_path / "awake").touch()
        await asyncio.wait(working)
        (tmp_path / "awake").touch()
        assert (await api.get(where)).json() == cancelled.json()
        assert await followed(api, where) == events
        thread = await api.get(f"/workflows/stubborn/threads/{begun['thread_id']}")
        assert thread.json()["status"] == "interrupted"


async def test_runs_belong_to_their_tenant_and_need_the_right_to_write(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (server, api):
        rights: list[tuple[Rights, str]] = [("write", "ann"), ("read", "ann"), ("write", "bob")]
        ann, reader, bob = (
            {"Authorization": f"Bearer {server.tokens.create(f'{right}-{name}', right, [name])[1]}"}
            for right, name in rights
        )
        key = {"Idempotency-Key": "both"}
        where, run = await begin(api, "slow/runs", slow("ann"), **ann, **key)
        paths = (await api.get("/openapi.json", headers=ann)).json()["paths"]
        routes = [
            (method.upper(), path.removeprefix(API))
            for path, operations in paths.items()
            for method in operations
            if "/workflows/{workflow_id}/runs/{run_id}" in path
        ]
        assert len(routes) == 3
        for method, path in routes:
            place = path.format(workflow_id="slow", run_id=run["run_id"])
            refused = await api.request(method, place, headers=bob)
            assert problem(refused) == (404, "not_found"), (method, path)
            place = path.format(workflow_id="answer", run_id=run["run_id"])
            refused = await api.request(method, place, headers=ann)
            assert problem(refused) == (404, "not_found"), (method, path)
        assert (await api.get("/workflows/slow/runs", headers=bob)).json()["items"] == []
        _, other = await begin(api, "slow/runs", slow("ann"), **bob, **key)
        assert other["run_id"] != run["run_id"]
        assert (await api.get(where, headers=reader)).status_code == 200
        begun = await api.post("/workflows/slow/runs", json=slow("r"), headers=ASYNC | reader)
        for refused in (begun, await api.delete(where, headers=reader)):
            assert problem(refused) == (403, "forbidden")


async def test_fifty_runs_at_once(tmp_path: Path) -> None:
    async with in_process(tmp_path) as (_, api):

        async def status_of(number: int) -> str:
            where, _ = await begin(api, "slow/runs", slow(f"m{number}", 0.2))
            return str((await followed(api, where))[-1][2]["data"]["status"])

        assert set(await asyncio.gather(*map(status_of, range(50)))) == {"completed"}
    assert all(noted(tmp_path, f"m{number}") == 1 for number in range(50))


async def test_a_run_is_taken_over_from_a_server_that_was_killed(tmp_path: Path) -> None:
    """Finished tasks do not run again, and readers go on after their last event."""
    folder, environ = write_desk(tmp_path), {CONSTANTS: json.dumps(SOON)}
    with serving(folder, **environ) as server, server.client() as api:
        body = slow("killed", 60) | {"thread_id": "k"}
        run = api.post("/workflows/slow/runs", json=body, headers=ASYNC)
        where = run.headers["location"].removeprefix(API)
        before = []
        with api.stream("GET", f"{where}/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    before.append(json.loads(line.removeprefix("data: ")))
                if before and before[-1]["task"] == "wait":
                    break
        server.process.kill()
        server.process.wait()
    with serving(folder, **environ) as server, server.client() as api:
        assert api.get(where).json()["status"] == "running"
        (folder / "awake").touch()
        last = {"Last-Event-ID": str(before[-1]["seq"])}
        text = api.get(f"{where}/events", headers=last).text
        lines = [line for line in text.splitlines() if line.startswith("data: ")]
        after = [json.loads(line.removeprefix("data: ")) for line in lines]
        assert api.get(where).json()["status"] == "completed"
    numbers = [event["seq"] for event in before + after]
    assert numbers == list(range(1, len(numbers) + 1))
    assert (after[0]["type"], after[0]["data"]["resumed"]) == ("run_start", True)
    assert [event["task"] for event in after if event["type"] == "task_start"] == ["wait", "last"]
    assert noted(folder, "killed") == 1


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("unknown", "waiting"),
        ("unchanged", "waiting"),
        ("waiting", "waiting"),
        ("paused", "waiting"),
        ("completed", "completed"),
        ("interrupted", "completed"),
        ("failed", "failed"),
    ],
)
async def test_what_is_left_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, status: str
) -> None:
    """A server takes over a run of which its thread shows how far another one has come."""
    monkeypatch.setattr("lorebind.server.background_runs.BEAT_SECONDS", 0.02)
    workflow = {"failed": "broken", "interrupted": "slow"}.get(state, "triage")
    async with in_process(tmp_path) as (server, api):
        place = f"/workflows/{workflow}/threads/t"
        since = None
        if state != "unknown":
            before = ["kind"] if state == "paused" else []
            body = {"thread_id": "t"} if state == "failed" else {**REFUND, "thread_id": "t"}
            if state == "interrupted":
                body = slow("s", 60) | {"thread_id": "t"}
                begun, _ = await begin(api, "slow/runs", body)
                await appears(tmp_path / "noted")
                await api.delete(begun)
                (tmp_path / "awake").touch()
            else:
                await api.post(
                    f"/workflows/{workflow}/runs", json=body | {"interrupt_before": before}
                )
        if state in ("completed", "unchanged"):
            answers = {"answers": {"approve": {"ok": True}}}
            await api.post(f"{place}/resume", json=answers)
        if state == "unchanged":  # another turn of a completed thread
            thread = await server.project.athread("triage", "t")
            since = [thread.turn, thread.updated]
        arguments = {"inputs": REFUND["input"], "interrupt_before": []}
        request = {"workflow": workflow, "thread_id": "t", "action": "run"}
        request |= {"arguments": arguments, "since": since}
        dead = RequestedRuns(server.database, "desk", of_workflows=True)
        namespace = Namespace("default", "desk", WORKFLOW_RUNS, workflow)
        run, _ = dead.request(namespace, request, alone=False)
        dead.interrupt(run)
        where = f"/workflows/{workflow}/runs/{run.run_id}"
        ended = await until(api, where, status)
        if state == "paused":
            assert ended["result"]["paused"] == ["kind"]
        elif status == "waiting":
            assert ended["result"]["waiting"][0]["task"] == "approve"
        elif state == "failed":
            assert "no ticket" in ended["error"]["detail"]
        names = [name for _, name, _ in await followed(api, where)]
        ran = state in ("unknown", "unchanged", "interrupted")
        assert ("run_start" in names, "run_end" in names) == (ran, True)
        if state == "interrupted":
            assert noted(tmp_path, "s") == 1


def background(database: Database) -> tuple[RequestedRuns, StoredEvents]:
    runs = RequestedRuns(database, "shop", of_workflows=True)
    return runs, StoredEvents(database, "shop")


TRIAGE = Namespace("default", "shop", WORKFLOW_RUNS, "triage")


def test_events_are_stored_until_the_end_and_pruned(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the server of a run stores its events. Old runs keep their last event, then nothing."""
    monkeypatch.setattr("lorebind.server.state.run_events.MOST_RUNS", 1)
    runs, stored = background(database)
    old, ended, new = (runs.request(TRIAGE, {}, alone=False)[0] for _ in range(3))
    events = [StoredEvent(number, "custom", "{}") for number in (1, 2, 3)]
    stored.append(runs.owner, [NewEvents(run, events, 2) for run in (old, ended, new)])
    stored.append("another", [NewEvents(new, [StoredEvent(4, "custom", "{}")], 0)])
    for run in (old, ended, new):
        assert [event.number for event in stored.after(run, 0, 9)] == [2, 3]
        runs.finish(run, "completed", {})
    stored.append(runs.owner, [NewEvents(new, [StoredEvent(5, "custom", "{}")], 0)])
    assert stored.after(new, 2, 9) == events[2:]
    ingests = RequestedRuns(database, "shop")
    ingest, _ = ingests.request(Namespace("default", "shop", "project", "handbook"), {})
    ingests.finish(ingest, "completed", {})
    with database.writing() as sql:
        sql.run(
            "update server_runs set finished_at = finished_at - 1 where run_id = :id",
            id=ended.run_id,
        )
        week = 8 * 24 * 3600
        for run in (old, ingest):
            change = "update server_runs set finished_at = finished_at - :week where run_id = :id"
            sql.run(change, week=week, id=run.run_id)
    stored.prune()
    assert runs.find(TRIAGE, old.run_id) is None
    assert ingests.find(ingest.namespace, ingest.run_id) is not None
    left = {
        run.run_id: [event.number for event in stored.after(run, 0, 9)] for run in (old, ended, new)
    }
    assert left == {old.run_id: [], ended.run_id: [3], new.run_id: [2, 3]}


async def test_a_reader_learns_how_many_events_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorebind.server.workflow_events.MOST_EVENTS", 4)
    async with in_process(tmp_path) as (_, api):
        where, _ = await begin(api, "slow/runs", slow("g"))
        await until(api, where, "completed")
        (number, name, notice), *newest, _ = await followed(api, where)
    assert (name, notice["data"]["dropped"]) == ("diagnostic", number)
    assert [event[0] for event in newest] == list(range(number + 1, number + 5))


async def test_events_wait_for_a_state_that_cannot_be_reached(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stored in order afterwards, within the limits."""
    monkeypatch.setattr("lorebind.server.workflow_events._OUTAGE_SECONDS", 0.05)
    monkeypatch.setattr("lorebind.server.workflow_events.MOST_CHARACTERS", 300)
    runs, stored = background(database)
    run, _ = runs.request(TRIAGE, {}, alone=False)
    outage = _Outage(stored)
    events = WorkflowEvents(run, EventWriter(outage, runs.owner))
    for number in range(1, 7):
        events.add(RunEvent("custom", 1, number, "t", "", "", {"number": number}))
        await asyncio.sleep(0.02)
    assert await asyncio.to_thread(outage.has_failed.wait, 60)
    outage.is_over = True
    await events.stored()
    numbers = [event.number for event in stored.after(run, 0, 9)]
    assert numbers == list(range(numbers[0], 7))
    assert 1 < len(numbers) < 6
    again = WorkflowEvents(run, EventWriter(stored, runs.owner))
    await again.continue_numbers()
    again.add(RunEvent("custom", 1, 1, "t", "", "", {}))
    await again.stored()
    assert stored.last(run) == 7


class _Outage(StoredEvents):
    """Events whose database cannot be reached at first."""

    def __init__(self, stored: StoredEvents) -> None:
        self._stored = stored
        self.has_failed = threading.Event()
        self.is_over = False

    def append(self, owner: str, batches: Iterable[NewEvents]) -> None:
        if not self.is_over:
            self.has_failed.set()
            raise StoreError("the database is gone")
        self._stored.append(owner, batches)
