"""Several servers that share their state in PostgreSQL."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from lorebind import Project
from lorebind.server.state.tables import open_state
from lorebind.server.state.tokens import Tokens
from lorebind_config.errors import StoreError
from lorebind_knowledge.plumbing.bridge import call
from tests.app.forked_python import CONSTANTS

from .conftest import PROJECT, problem, serving, write_project
from .desk import write_desk
from .in_process import served
from .test_runs import BATCH, DOCUMENTS, SOON, Slow, events, wait_for_end
from .test_workflows import noted

TOURS = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Tours leave at 9."}]}]}
STATE = {"state": {"dsn": "{{ .env.PG_DSN }}"}}
POSTGRES: dict[str, Any] = {
    "vector_dbs": [{"id": "pg", "type": "pgvector", "config": {"dsn": "{{ .env.PG_DSN }}"}}],
}
WORKFLOWS = {"workflows": [{"id": "answer", "tasks": [{"id": "say", "prompt": "What"}]}]}
WITH_WORKFLOW = PROJECT | POSTGRES | WORKFLOWS


def test_what_one_makes_the_other_serves(tmp_path: Path, dsn: str) -> None:
    for name in ("one", "two"):
        write_project(tmp_path / name, PROJECT | POSTGRES)
    with (
        serving(tmp_path / "one", PG_DSN=dsn) as first,
        serving(tmp_path / "two", PG_DSN=dsn) as second,
        first.client() as here,
        second.client() as there,
    ):
        reply = here.put("/knowledge-bases/tours", json=TOURS)
        assert reply.status_code == 201
        assert there.get("/knowledge-bases/tours").headers["etag"] == reply.headers["etag"]
        run = there.post("/knowledge-bases/tours/ingest", headers={"Prefer": "wait=20"}).json()
        assert run["status"] == "completed", run
        assert here.get(f"/knowledge-bases/tours/runs/{run['run_id']}").json() == run
        answer = here.post("/knowledge-bases/tours/query", json={"query": "tours"}).json()
        assert [match["text"] for match in answer["matches"]] == ["Tours leave at 9."]
        assert here.delete("/knowledge-bases/tours").status_code == 204
        assert problem(there.get("/knowledge-bases/tours")) == (404, "not_found")


def test_the_state_of_several_servers_is_where_their_catalog_is(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is declared for it: tokens, runs and threads are in PostgreSQL, and in no file.

    A project of another name has no part in it.
    """
    monkeypatch.setenv("PG_DSN", dsn)
    for name in ("one", "two", "other"):
        write_project(
            tmp_path / name, WITH_WORKFLOW | ({"name": "other"} if name == "other" else {})
        )
    runs, named = {}, {}
    for name in ("one", "two", "other"):
        with Project.load(tmp_path / name) as project:
            database = open_state(project.config)
            named[name] = [token.name for token in Tokens(database).all()]
            Tokens(database).create(f"of {name}", "read")
            database.close()
            project.run("answer", {}, thread_id=name)
            runs[name] = sorted(thread.thread_id for thread in project.threads("answer"))
    assert named == {"one": [], "two": ["of one"], "other": []}
    assert runs == {"one": ["one"], "two": ["one", "two"], "other": ["other"]}
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.parametrize("where", ["beside", "declared", "file", "declared file"])
def test_storage_that_other_machines_lack_is_a_warning(
    where: str, tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` and `doctor` name what is on one machine while the catalog is in PostgreSQL.

    Files that were there before the catalog stay in use.
    """
    monkeypatch.setenv("PG_DSN", dsn)
    threads: dict[str, Any] = {"type": "postgres", "dsn": "{{ .env.PG_DSN }}"}
    places = {
        "declared": {"server": STATE, "checkpointer": threads},
        "declared file": {"server": {"state": {"path": "s.db"}}, "checkpointer": {}},
    }
    folder = write_project(tmp_path / "shop", WITH_WORKFLOW | places.get(where, {}))
    if where == "file":
        (folder / ".lorebind").mkdir()
        for file in ("server.db", "threads.db"):
            (folder / ".lorebind" / file).touch()
    with Project.load(folder) as project:
        findings = [finding for finding in project.doctor() if finding.status == "warning"]
        project.run("answer", {})
        assert len(project.threads("answer")) == 1
    warnings = [finding for finding in findings if "on this machine only" in finding.detail]
    assert [warning.part for warning in warnings] == (
        ["server state", "threads"] if "file" in where else []
    )
    for warning in warnings:
        assert ("exists and stays in use" in warning.detail) == (where == "file")
        assert ("move it away, or declare" in warning.detail) == (where == "file")
    with serving(folder) as server, server.client() as api:
        assert api.put("/knowledge-bases/tours", json=TOURS).status_code == 201
        assert server.process.stdout is not None
        for warning in warnings:
            line = server.process.stdout.readline()
            assert line == f"warning: {warning.part}: {warning.detail}\n"
    files = {"file": ["server.db", "threads.db"], "declared file": ["s.db", "threads.db"]}
    in_use = [file.name for file in folder.rglob("*.db") if file.stat().st_size]
    assert sorted(in_use) == files.get(where, [])


def test_where_the_role_may_not_create_it(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ensure_schema: false` of the catalog holds for both, and each error shows the SQL."""
    monkeypatch.setenv("PG_DSN", dsn)
    vector_db = POSTGRES["vector_dbs"][0]
    config = vector_db["config"] | {"ensure_schema": False}
    shop = WITH_WORKFLOW | {"vector_dbs": [vector_db | {"config": config}]}
    with Project.load(write_project(tmp_path / "shop", shop)) as project:
        database = open_state(project.config)
        with pytest.raises(StoreError, match="ensure_schema is false") as state:
            Tokens(database).create("reader", "read")
        with pytest.raises(StoreError, match="ensure_schema is false") as threads:
            project.run("answer", {})
        statements = [str(error.value).partition(":\n")[2] for error in (state, threads)]
        with psycopg.connect(dsn, autocommit=True) as db:
            for sql in statements:
                db.execute(sql)
                db.execute("reset search_path")
        Tokens(database).create("reader", "read")
        assert project.run("answer", {}).status == "completed"
        database.close()


def test_another_takes_over_from_one_that_was_killed(tmp_path: Path, dsn: str) -> None:
    slow = Slow(tmp_path / "slow", POSTGRES)
    slow.environ["PG_DSN"] = dsn
    with serving(slow.folder, **slow.environ) as second, second.client() as two:
        with serving(slow.folder, **slow.environ) as first, first.client() as api:
            run_id = api.post("/knowledge-bases/texts/ingest").json()["run_id"]
            slow.wait_for(1)
            where = f"/knowledge-bases/texts/runs/{run_id}"
            assert two.get(where).json()["status"] == "running"
            busy = two.post("/knowledge-bases/texts/ingest")
            assert (problem(busy), busy.json()["run_id"]) == ((409, "ingest_running"), run_id)
            first.process.kill()
            assert first.process.wait() == -signal.SIGKILL
        slow.let_through(100)
        assert wait_for_end(two, where)["status"] == "completed"


def test_servers_that_start_together_ingest_once(tmp_path: Path, dsn: str) -> None:
    """The others wait for the first index; one of them goes on if the first server is killed."""
    slow = Slow(tmp_path / "slow", POSTGRES)
    slow.environ["PG_DSN"] = dsn
    file = slow.folder / "lorebind.yaml"
    file.write_text(file.read_text().replace("- id: texts", "- id: texts\n  ingest: on_start"))
    where = "/knowledge-bases/texts/runs"
    with serving(slow.folder, ready=False, **slow.environ) as first, first.client() as here:
        slow.wait_for(1)
        with serving(slow.folder, ready=False, **slow.environ) as second, second.client() as there:
            statuses = [api.get("http://localhost/readyz").status_code for api in (here, there)]
            assert statuses == [503, 503]
            first.process.kill()
            assert first.process.wait() == -signal.SIGKILL
            slow.let_through(100)
            deadline = time.monotonic() + 60
            while there.get("http://localhost/readyz").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            (run,) = there.get(where).json()["items"]
    assert run["status"] == "completed"
    assert len(slow.embedded()) <= DOCUMENTS + BATCH
    assert len(set(slow.embedded())) == DOCUMENTS


async def test_a_server_does_not_wait_for_a_later_index(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an index from before, it is ready while another server brings it up to date."""
    monkeypatch.setenv("PG_DSN", dsn)
    kbs = [{**PROJECT["knowledge_bases"][0], "ingest": "on_start"}]
    shop = PROJECT | POSTGRES | {"knowledge_bases": kbs}
    async with served(tmp_path, shop) as first:
        assert first.server.starting is not None
        await first.server.starting
        runs = first.server.ingests.runs
        namespace = first.server.project.knowledge_base("handbook").handle.namespace
        (done,) = await call(runs.page, namespace, None, None, 9)
        assert done.status == "completed"
        again, _ = await call(runs.request, namespace, done.request)
        async with served(tmp_path, shop) as second:
            assert second.server.starting is not None
            await second.server.starting
        assert await call(runs.find, namespace, again.run_id) == again
        await call(runs.finish, again, "completed", {})
        async with served(tmp_path, shop) as third:
            assert third.server.starting is not None
            await third.server.starting
        assert len(await call(runs.page, namespace, None, None, 9)) == 3


@contextmanager
def two_servers(root: Path, dsn: str) -> Iterator[tuple[Slow, httpx.Client, httpx.Client]]:
    """Serve a slow project twice, with a client of each server."""
    slow = Slow(root / "slow", POSTGRES)
    slow.environ["PG_DSN"] = dsn
    with (
        serving(slow.folder, **slow.environ) as first,
        serving(slow.folder, **slow.environ) as second,
        first.client() as here,
        second.client() as there,
    ):
        yield slow, here, there


def test_events_come_from_any_server(tmp_path: Path, dsn: str) -> None:
    """A server tells how far the run of another one is, once a second, and then its end."""
    with two_servers(tmp_path, dsn) as (slow, here, there):
        run_id = here.post("/knowledge-bases/texts/ingest").json()["run_id"]
        where = f"/knowledge-bases/texts/runs/{run_id}"
        slow.let_through(2)
        seen = []
        with there.stream("GET", f"{where}/events") as response:
            for event in events(response):
                seen.append(event)
                if event["data"].get("chunks_embedded") == 2 * BATCH:
                    read = there.get(where).json()
                    slow.let_through(100)
        counts = {"documents": DOCUMENTS, "documents_read": DOCUMENTS, "chunks": DOCUMENTS}
        assert read["progress"] == counts | {"chunks_embedded": 2 * BATCH}
        assert {event["event"] for event in seen[:-1]} == {"ingest_progressed"}
        assert seen[-2]["data"] == counts | {"chunks_embedded": DOCUMENTS}
        assert (seen[-1]["event"], seen[-1]["data"]["status"]) == ("end", "completed")
        numbers = [int(event["id"]) for event in seen]
        assert numbers == sorted(set(numbers))
        assert there.get("/knowledge-bases/texts/runs").json()["items"][0]["progress"] is None


def test_a_run_is_cancelled_through_another(tmp_path: Path, dsn: str) -> None:
    with two_servers(tmp_path, dsn) as (slow, here, there):
        run_id = here.post("/knowledge-bases/texts/ingest").json()["run_id"]
        slow.wait_for(1)
        where = f"/knowledge-bases/texts/runs/{run_id}"
        assert there.delete(where).status_code == 200
        for batches in range(1, DOCUMENTS // BATCH):  # until the first server has read the change
            time.sleep(0.5)
            slow.let_through(batches)
            while there.get(where).json()["finished_at"] is None:
                if len(slow.embedded()) > batches * BATCH:
                    break  # the next batch waits
                time.sleep(0.05)
        assert wait_for_end(there, where)["status"] == "cancelled"


def test_workflows_in_the_background_of_any_server(tmp_path: Path, dsn: str) -> None:
    """A run is followed and cancelled through another server, which takes over if it is killed."""
    folder = write_desk(tmp_path)
    more = json.dumps(STATE["state"])
    with (folder / "lorebind.yaml").open("a") as file:
        file.write(f"server: {{ state: {more} }}\ncheckpointer: {{ type: postgres, ")
        file.write('dsn: "{{ .env.PG_DSN }}" }\n')
    environ = {"PG_DSN": dsn, CONSTANTS: json.dumps(SOON)}
    with serving(folder, **environ) as second, second.client() as there:
        with serving(folder, **environ) as first, first.client() as here:

            def begin(name: str) -> str:
                body = {"input": {"seconds": 60, "name": name}, "thread_id": name}
                headers = {"Prefer": "respond-async"}
                run = here.post("/workflows/slow/runs", json=body, headers=headers)
                assert run.status_code == 202
                deadline = time.monotonic() + 60
                thread = f"/workflows/slow/threads/{name}"
                while not here.get(thread).json().get("history"):  # until the first task is saved
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                return str(run.headers["location"].removeprefix("/api/v0"))

            cancelled = begin("cancelled")
            with ThreadPoolExecutor() as threads:
                reading = threads.submit(there.get, f"{cancelled}/events")
                assert there.delete(cancelled).json()["status"] == "cancelled"
                assert here.get(cancelled).json()["status"] == "cancelled"
                assert reading.result().text.count("event: run_end") == 1
                killed = begin("killed")
                reading = threads.submit(there.get, f"{killed}/events")
                first.process.kill()
                assert first.process.wait() == -signal.SIGKILL
                (folder / "awake").touch()
                numbers = re.findall(r"^id: (\d+)$", reading.result().text, re.MULTILINE)
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
        assert there.get(killed).json()["status"] == "completed"
    assert (noted(folder, "killed"), noted(folder, "cancelled")) == (1, 1)


def test_a_server_has_few_connections(tmp_path: Path, dsn: str) -> None:
    """Searches, an ingest, a workflow and the state of a server need at most ten connections."""
    slow = Slow(tmp_path / "slow", POSTGRES | WORKFLOWS)
    file = slow.folder / "lorebind.yaml"  # where the ingest leaves the embedder free for questions
    text = file.read_text().replace("max_concurrent: 1", "max_concurrent: 2")
    file.write_text(text.replace(f"batch_size: {BATCH}", f"batch_size: {DOCUMENTS}"))
    slow.environ["PG_DSN"] = f"{dsn}&application_name=few"
    most, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        with psycopg.connect(dsn, autocommit=True) as db:
            count = "select count(*) from pg_stat_activity where application_name = 'few'"
            while not ended.wait(0.005):
                row = db.execute(count).fetchone()
                assert row is not None
                most = max(most, row[0])

    with (
        serving(slow.folder, **slow.environ) as server,
        server.client() as api,
        ThreadPoolExecutor() as threads,
    ):
        assert api.put("/knowledge-bases/tours", json=TOURS).status_code == 201
        slow.let_through(1)
        run = api.post("/knowledge-bases/tours/ingest", headers={"Prefer": "wait=20"}).json()
        assert run["status"] == "completed", run
        where = api.post("/knowledge-bases/texts/ingest").headers["location"]
        slow.wait_for(2)
        watching = threads.submit(watch)
        asked: list[tuple[str, Any]] = [
            ("/knowledge-bases/tours/query", {"query": "tours"}),
            ("/workflows/answer/runs", {"input": {}}),
            *[("/knowledge-bases/tours/query", {"query": f"tour {i}"}) for i in range(8)],
        ]
        with ThreadPoolExecutor(40) as burst:
            replies = [burst.submit(api.post, path, json=body) for path, body in asked * 10]
        statuses = {reply.result().status_code for reply in replies}
        ended.set()
        watching.result()
        slow.let_through(100)
        assert wait_for_end(api, where.removeprefix("/api/v0"))["status"] == "completed"
    assert statuses == {200}
    assert 3 <= most <= 10  # of the ingest's lock, of the threads, of a search, …
