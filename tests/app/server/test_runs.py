"""Requested ingests: run, watched, cancelled, killed and resumed."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind import Project
from lorebind.server.state.runs import RequestedRuns
from lorebind.server.state.tables import TABLES, open_state
from lorebind_config.namespace import Namespace
from lorebind_knowledge.database.databases import Database, EmbeddedDatabase, PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from tests.app import slow_embedder
from tests.app.forked_python import CONSTANTS, ForkedPython

from .conftest import problem, serving, write_project
from .in_process import served

BATCH, DOCUMENTS = 4, 24
SOON = {
    "lorebind.server.state.runs:STALE_SECONDS": 4,
    "lorebind.server.background_runs:BEAT_SECONDS": 0.5,
}
"""Servers notice that another was killed in less than half the time."""


class Slow:
    """A project whose embedder waits for permission, batch by batch."""

    def __init__(self, folder: Path, more: dict[str, Any] | None = None) -> None:
        documents = [{"id": f"d{i}", "text": f"Text number {i}."} for i in range(DOCUMENTS)]
        declared = {
            **(more or {}),
            "name": "slow",
            "embedders": [
                {
                    "id": "slow",
                    "provider": "langchain",
                    "class": "slow_embedder:Slow",
                    "config": {},
                    "batch_size": BATCH,
                    "max_concurrent": 1,
                }
            ],
            "knowledge_bases": [
                {"id": "texts", "sources": [{"type": "inline", "documents": documents}]}
            ],
        }
        self.folder = write_project(folder, declared)
        shutil.copy(slow_embedder.__file__, folder / "slow_embedder.py")
        self.log, self.gate = folder / "log", folder / "gate"
        self.log.touch()
        self.environ = {
            "SLOW_LOG": str(self.log),
            "SLOW_GATE": str(self.gate),
            "SLOW_SECONDS": "0",
            CONSTANTS: json.dumps(SOON),
        }

    def let_through(self, batches: int) -> None:
        self.gate.write_bytes(b"x" * batches)

    def embedded(self) -> list[str]:
        return [text for call in slow_embedder.calls_in(self.log) for text in call]

    def wait_for(self, texts: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.embedded()) < texts:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path / "slow")


def test_a_run_from_its_request_to_its_report(api: httpx.Client) -> None:
    reply = api.post("/knowledge-bases/handbook/ingest", json={"strategy": "replace"})
    assert reply.status_code == 202
    where = reply.headers["location"].removeprefix("/api/v0")
    run = wait_for_end(api, where)
    assert run["status"] == "completed"
    assert run["report"]["run_id"] == run["run_id"]
    assert run["report"]["documents"]["added"] == 2
    assert run["request"]["strategy"] == "replace"
    listed = api.get("/knowledge-bases/handbook/runs").json()["items"]
    assert run in listed
    assert problem(api.get("/knowledge-bases/handbook/runs/nope")) == (404, "not_found")
    assert api.delete(where).json() == run  # it has ended


def test_a_reindex_and_its_preference(api: httpx.Client) -> None:
    done = api.post("/knowledge-bases/handbook/reindex", headers={"Prefer": "wait=20"})
    assert (done.status_code, done.headers["preference-applied"]) == (200, "wait=20")
    assert done.json()["report"]["strategy"] == "replace"


def test_one_key_is_one_run(api: httpx.Client) -> None:
    """A repeated request gets the run of the first one, even while that is in flight."""

    def ask(_: int) -> httpx.Response:
        return api.post("/knowledge-bases/handbook/ingest", headers={"Idempotency-Key": "once"})

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(32)))
    assert {answer.status_code for answer in answers} <= {200, 202}  # it may have ended
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    other = api.post(
        "/knowledge-bases/handbook/ingest",
        json={"strategy": "replace"},
        headers={"Idempotency-Key": "once"},
    )
    assert problem(other) == (422, "idempotency_mismatch")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"strategy": "nonsense"}, "/strategy"),
        ({"only_failed": 1}, "/only_failed"),
        ({"nonsense": 1}, "/nonsense"),
        ({"inputs": {"a": 1}}, "/inputs"),
    ],
)
def test_a_wrong_request(api: httpx.Client, body: dict[str, Any], pointer: str) -> None:
    refused = api.post("/knowledge-bases/handbook/ingest", json=body)
    assert problem(refused) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_what_cannot_go_together(api: httpx.Client) -> None:
    body = {"strategy": "replace", "only_failed": True}
    refused = api.post("/knowledge-bases/handbook/ingest", json=body, headers={"Prefer": "wait=20"})
    assert problem(refused) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/only_failed"]


def test_events_come_as_they_happen_and_again(slow: Slow) -> None:
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        run_id = api.post("/knowledge-bases/texts/ingest").json()["run_id"]
        slow.wait_for(BATCH)
        path = f"/knowledge-bases/texts/runs/{run_id}/events"
        seen = []
        with api.stream("GET", path) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            for event in events(response):
                seen.append(event)
                slow.let_through(100)
        names = [event["event"] for event in seen]
        assert names[0] == "ingest_started"
        assert names[-2:] == ["ingest_completed", "end"]
        assert names.count("ingest_embedded") == DOCUMENTS // BATCH
        numbers = [int(event["id"]) for event in seen]
        assert numbers == sorted(set(numbers))
        assert seen[-1]["data"]["report"]["texts_embedded"] == DOCUMENTS


def test_events_of_a_run_that_has_ended(api: httpx.Client) -> None:
    """A run may end before its client asks for the events; none is lost."""
    path = "/knowledge-bases/handbook"
    run = api.post(f"{path}/ingest", headers={"Prefer": "wait=20"}).json()
    assert run["status"] == "completed"
    with api.stream("GET", f"{path}/runs/{run['run_id']}/events") as response:
        names = [event["event"] for event in events(response)]
    if "collection_created" in names:  # no other test has ingested before
        names.remove("collection_created")
    assert names[:2] == ["ingest_started", "ingest_listed"]
    assert names[-2:] == ["ingest_completed", "end"]


def test_one_at_a_time_and_cancelled(slow: Slow) -> None:
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        run_id = api.post("/knowledge-bases/texts/ingest").json()["run_id"]
        slow.wait_for(BATCH)
        busy = api.post("/knowledge-bases/texts/ingest")
        assert problem(busy) == (409, "ingest_running")
        assert busy.json()["run_id"] == run_id
        assert busy.headers["retry-after"]
        slow.let_through(2)
        cancelled = api.delete(f"/knowledge-bases/texts/runs/{run_id}")
        slow.let_through(100)
        assert wait_for_end(api, f"/knowledge-bases/texts/runs/{run_id}")["status"] == "cancelled"
        assert cancelled.status_code == 200
        again = api.post("/knowledge-bases/texts/ingest", headers={"Prefer": "wait=20"}).json()
        assert again["report"]["chunks"]["total"] == DOCUMENTS


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_next_start_goes_on(slow: Slow, how: signal.Signals) -> None:
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        run_id = api.post("/knowledge-bases/texts/ingest").json()["run_id"]
        slow.let_through(2)
        slow.wait_for(3 * BATCH)
        server.process.send_signal(how)
        if how == signal.SIGTERM:
            time.sleep(0.5)  # until the server has stopped embedding
            slow.let_through(100)
        assert server.process.wait(60) == (0 if how == signal.SIGTERM else -how)
    slow.let_through(100)
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        run = wait_for_end(api, f"/knowledge-bases/texts/runs/{run_id}")
        assert run["status"] == "completed"
        assert run["report"]["run_id"] == run_id
        assert api.get("/knowledge-bases/texts/stats").json()["chunks"] == DOCUMENTS
    embedded = slow.embedded()
    assert len(set(embedded)) == DOCUMENTS
    assert len(embedded) - DOCUMENTS <= BATCH


def test_after_a_kill_runs_are_cancelled_and_documents_still_added(slow: Slow) -> None:
    """A run without a server can be cancelled; documents that waited for it are ingested."""
    where = "/knowledge-bases/texts"
    note = {"id": "note", "text": "The shop is closed."}
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        run_id = api.post(f"{where}/ingest").json()["run_id"]
        slow.wait_for(BATCH)
        added = api.post(f"{where}/documents", json=note)
        assert (added.status_code, added.json()["state"]) == (202, "pending")
        server.process.kill()
        server.process.wait()
    slow.let_through(100)
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        assert api.delete(f"{where}/runs/{run_id}").status_code == 200
        assert wait_for_end(api, f"{where}/runs/{run_id}")["status"] == "cancelled"
        last, _ = api.get(f"{where}/runs").json()["items"]
        assert last["request"]["uris"] == ["added:note"]
        assert wait_for_end(api, f"{where}/runs/{last['run_id']}")["status"] == "completed"
        document = api.get(added.headers["location"].removeprefix("/api/v0")).json()
        assert document["state"] == "ready"
    assert [text.splitlines()[-1] for text in slow.embedded()[BATCH:]] == [note["text"]]


@pytest.fixture(params=["sqlite", "postgres"])
def database(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Database]:
    if request.param == "postgres":
        address = PostgresAddress(request.getfixturevalue("dsn"))
        database: Database = PostgresDatabase(address, TABLES)
    else:
        database = EmbeddedDatabase(tmp_path / "server.db", TABLES)
    yield database
    database.close()


HANDBOOK = Namespace("default", "shop", "project", "handbook")


def test_a_beat_of_a_clock_that_was_set_back(database: Database) -> None:
    """A run whose server beat two hours from now, by the database's clock, has lost its server."""
    dead, other = RequestedRuns(database, "shop"), RequestedRuns(database, "shop")
    run, _ = dead.request(HANDBOOK, {})
    assert other.take_over() == []
    with database.writing() as sql:
        sql.run(f"update server_runs set beat = {sql.now} + 7200")
    assert [taken.run_id for taken in other.take_over()] == [run.run_id]
    assert dead.beat([run.run_id]) == set()
    assert other.beat([run.run_id]) == {run.run_id}


def test_only_a_server_with_the_same_declarations_takes_over(database: Database) -> None:
    """With others, a run would read what its request never meant. It is ended after a while."""
    dead, same, other = (RequestedRuns(database, "shop", digest) for digest in "aab")
    run, _ = dead.request(HANDBOOK, {})
    added, _ = dead.request(HANDBOOK, {}, alone=False, for_any_server=True)
    cancelled, _ = dead.request(HANDBOOK, {}, alone=False)
    same.cancel(cancelled)
    assert (other.take_over(), other.end_orphans(0, "failed", {})) == ([], [])  # it may be alive
    dead.interrupt(run)
    with database.writing() as sql:
        sql.run(f"update server_runs set beat = {sql.now} - 30")
    assert {taken.run_id for taken in other.take_over()} == {added.run_id, cancelled.run_id}
    assert other.end_orphans(60, "failed", {}) == []
    assert same.end_orphans(0, "failed", {}) == []
    assert [ended.run_id for ended in other.end_orphans(20, "failed", {"error": {}})] == [
        run.run_id
    ]
    assert same.take_over() == []
    dead.finish(run, "completed", {})  # too late
    found = same.find(HANDBOOK, run.run_id)
    assert found is not None
    assert (found.status, found.outcome) == ("failed", {"error": {}})


def test_tables_of_the_first_version(database: Database) -> None:
    """Runs that they hold may be taken over by any server."""
    old = [
        text.replace("declarations [name] not null default '',", "") for text in TABLES.statements
    ]
    with database.writing() as sql:
        sql.run("drop table server_runs")
    first = replace(TABLES, version=1, statements=old, migrations={})
    with database.writing() as sql:
        first.bring_up_to_date(sql)
        row = {"tenant": "default", "project": "shop", "scope": "project", "kb": "handbook"}
        row |= {"run_id": "r", "request": "{}", "status": "running", "requested_at": 0}
        sql.insert("server_runs", [row | {"owner": "dead", "beat": 0, "cancelled": 0}])
        TABLES.bring_up_to_date(sql)
    assert [run.run_id for run in RequestedRuns(database, "shop", "a").take_over()] == ["r"]


@pytest.mark.parametrize("has_changed", [False, True])
async def test_a_start_with_changed_declarations(tmp_path: Path, has_changed: bool) -> None:
    """The next ingest does not wait for an interrupted one that nobody may resume."""
    settings = {"action": "ingest", "workflow": None, "strategy": "upsert"}
    declared = Project.load(write_project(tmp_path)).config
    state = open_state(declared)
    runs = RequestedRuns(state, "shop", declared.digest)
    run, _ = runs.request(HANDBOOK, settings)
    runs.interrupt(run)
    state.close()
    more = {"models": [{"id": "quotes", "provider": "extractive"}]} if has_changed else {}
    waiting = {"headers": {"Prefer": "wait=20"}}
    async with served(tmp_path, more) as second, second.client() as api:
        before = await second.server.ingests.ended(run, 0.2 if has_changed else 20)
        again = await api.post("/knowledge-bases/handbook/ingest", **waiting)
        after = (await api.get(f"/knowledge-bases/handbook/runs/{run.run_id}")).json()
    assert (again.status_code, again.json()["status"]) == (200, "completed"), again.text
    if has_changed:
        assert (before.status, after["status"]) == ("interrupted", "failed")
        assert after["error"]["code"] == "declarations_changed"
    else:
        assert (before.status, after["status"]) == ("completed", "completed")


async def test_a_knowledge_base_of_a_workflow(tmp_path: Path) -> None:
    """The addresses of its runs and documents name the workflow too."""
    workflow = {
        "id": "reply",
        "knowledge_bases": [{"id": "letters"}],
        "tasks": [{"id": "wait", "type": "wait", "prompt": "Yes?"}],
    }
    async with served(tmp_path, {"workflows": [workflow]}) as server, server.client() as api:
        where, named = "/knowledge-bases/letters", {"workflow": "reply"}
        document = {"id": "a", "text": "Keys"}
        for answer in (
            await api.post(f"{where}/ingest", json=named, headers={"Prefer": "wait=20"}),
            await api.post(f"{where}/documents", json=document, params=named),
        ):
            assert answer.is_success, answer.text
            place = answer.headers["location"]
            assert (await api.get(f"http://localhost{place}")).status_code == 200


def test_another_process_ingests(slow: Slow, forked: ForkedPython) -> None:
    """All requests with one key are refused, and the key can be used again afterwards."""
    import subprocess

    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        other = subprocess.Popen(
            [forked.commands / "lorebind", "ingest", "texts", "-p", str(slow.folder)],
            env={"PATH": "/usr/bin", **slow.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        slow.wait_for(BATCH)

        def ask(_: int) -> httpx.Response:
            return api.post("/knowledge-bases/texts/ingest", headers={"Idempotency-Key": "k"})

        with ThreadPoolExecutor(8) as threads:
            answers = [problem(reply) for reply in threads.map(ask, range(8))]
        assert answers == [(409, "ingest_running")] * 8
        slow.let_through(100)
        assert other.wait(60) == 0
        again = api.post(
            "/knowledge-bases/texts/ingest",
            headers={"Idempotency-Key": "k", "Prefer": "wait=20"},
        )
        assert again.json()["report"]["documents"]["unchanged"] == DOCUMENTS


def wait_for_end(api: httpx.Client, where: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (run := api.get(where).json())["finished_at"] is None:
        assert time.monotonic() < deadline, run
        time.sleep(0.05)
    return run


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """Parse server-sent events, with their data as JSON."""
    event: dict[str, Any] = {}
    for line in response.iter_lines():
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        if name:
            event[name] = json.loads(value) if name == "data" else value
