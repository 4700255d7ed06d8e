"""Servers that leave requested ingests to workers (`ingests: workers`)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from lorebind import Project
from lorebind.server.run_worker import RunWorker
from lorebind_config.errors import ConfigurationError, StoreError
from lorebind_knowledge.database import postgres_notifications
from tests.app.forked_python import CONSTANTS
from tests.app.missing_packages import hide, missing_modules
from tests.knowledge.test_scale import Pooler
from tests.postgres import Server
from tests.processes import run_program

from .conftest import PROJECT, problem, serving, working, write_project
from .test_runs import BATCH, DOCUMENTS, SOON, Slow, events, wait_for_end
from .test_shared_state import POSTGRES

WORKERS: dict[str, Any] = POSTGRES | {
    "server": {"ingests": "workers"},
    "ingestion": {"lease_seconds": 4},
}
NOBODY = "there is no worker for runs; start one with: lorebind worker"
TEXTS = "/knowledge-bases/texts"


@pytest.fixture
def slow(tmp_path: Path, dsn: str) -> Slow:
    slow = Slow(tmp_path / "slow", WORKERS)
    slow.environ["PG_DSN"] = dsn
    return slow


def declare(slow: Slow, change: Callable[[dict[str, Any]], object]) -> None:
    file = slow.folder / "lorebind.yaml"
    declared = yaml.safe_load(file.read_text())
    change(declared)
    file.write_text(yaml.safe_dump(declared))


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_from_its_request_to_its_report(slow: Slow) -> None:
    """The API is that of a server which ingests by itself."""
    slow.let_through(2)
    with (
        serving(slow.folder, **slow.environ) as server,
        server.client() as api,
        working(slow.folder, **slow.environ),
    ):
        where = api.post(f"{TEXTS}/ingest").headers["location"].removeprefix("/api/v0")
        seen = []
        with api.stream("GET", f"{where}/events") as response:
            for event in events(response):
                seen.append(event)
                if event["data"].get("chunks_embedded") == 2 * BATCH:
                    busy = api.post(f"{TEXTS}/ingest")
                    (worker,) = api.get("/workers").json()["items"]
                    slow.let_through(100)
        assert problem(busy) == (409, "ingest_running")
        assert (worker["works_on"], worker["busy"]) == ("ingests", 1)
        waited = {"waiting"}  # if the worker takes the run later than the stream begins
        assert {event["event"] for event in seen[:-1]} - waited == {"ingest_progressed"}
        assert (seen[-1]["event"], seen[-1]["data"]["status"]) == ("end", "completed")
        run = api.get(where).json()
        assert run["report"]["documents"]["added"] == DOCUMENTS
        assert (run["waits_for"], run["status"]) == (None, "completed")
        added = api.post(f"{TEXTS}/documents", json={"text": "Added.", "id": "more"})
        assert added.status_code == 201, added.text
        failing = api.post(
            f"{TEXTS}/ingest",
            json={"only_failed": True, "strategy": "replace"},
            headers={"Prefer": "wait=20"},
        )
        assert problem(failing) == (422, "invalid_request")
    assert len(slow.embedded()) == DOCUMENTS + 1


def test_without_a_worker_it_does_not_hang_in_silence(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run, its events, `doctor` and the log say that it waits, and why."""
    slow.let_through(100)
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        reply = api.post(f"{TEXTS}/ingest")
        run = reply.json()
        assert (reply.status_code, run["status"], run["waits_for"]) == (202, "waiting", NOBODY)
        where = f"{TEXTS}/runs/{run['run_id']}"
        assert api.get(where).json()["waits_for"] == NOBODY
        with api.stream("GET", f"{where}/events") as response:
            first = next(events(response))
        assert (first["event"], first["data"]) == ("waiting", {"waits_for": NOBODY})
        assert api.post(f"{TEXTS}/documents", json={"text": "Added."}).status_code == 202
        for name, value in slow.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.syspath_prepend(str(slow.folder))
        with Project.load(slow.folder) as project:
            (finding,) = [each for each in project.doctor() if each.part == "workers"]
        assert (finding.status, NOBODY in finding.detail) == ("warning", True)
        assert server.process.stdout is not None
        assert f"ingests wait: {NOBODY}" in server.process.stdout.readline()
        assert api.delete(where).json()["status"] == "cancelled"
        again = api.post(f"{TEXTS}/ingest").json()["run_id"]
        declare(slow, lambda declared: declared.update(description="Changed."))
        with working(slow.folder, **slow.environ) as other:
            changed = "all workers have other declarations of the project"
            until(lambda: api.get(f"{TEXTS}/runs/{again}").json()["waits_for"].startswith(changed))
            assert other.poll() is None
        declare(slow, lambda declared: declared.pop("description"))
        with working(slow.folder, "--once", **slow.environ) as worker:
            assert worker.wait(60) == 0
        runs = api.get(f"{TEXTS}/runs").json()["items"]
        assert sorted(run["status"] for run in runs) == ["cancelled", "completed", "completed"]


def test_a_worker_that_is_killed_is_replaced(slow: Slow) -> None:
    """The next one goes on where it was. A run is cancelled wherever it is."""
    with (
        serving(slow.folder, **slow.environ) as server,
        server.client() as api,
        working(slow.folder, **slow.environ) as first,
    ):
        run_id = api.post(f"{TEXTS}/ingest").json()["run_id"]
        slow.let_through(2)
        slow.wait_for(3 * BATCH)
        with working(slow.folder, **slow.environ):
            first.kill()
            assert first.wait() == -signal.SIGKILL
            slow.let_through(100)
            assert wait_for_end(api, f"{TEXTS}/runs/{run_id}")["status"] == "completed"
            assert len(slow.embedded()) <= DOCUMENTS + BATCH
            slow.gate.unlink()
            where = api.post(f"{TEXTS}/reindex").json()["run_id"]
            until(lambda: api.get(f"{TEXTS}/runs/{where}").json()["status"] != "waiting")
            assert wait_for_end(api, f"{TEXTS}/runs/{where}")["status"] == "completed"


def test_sessions_that_end_within_a_statement(slow: Slow, postgres: Server) -> None:
    """The ingest goes on, and embeds at most one batch again."""
    table = "catalog_chunks"
    blocked = f"select 1 from pg_locks where relation = '{table}'::regclass and not granted"
    slow.let_through(1)
    with (
        serving(slow.folder, **slow.environ) as server,
        server.client() as api,
        working(slow.folder, **slow.environ),
        closing(psycopg.connect(slow.environ["PG_DSN"])) as db,
    ):
        where = f"{TEXTS}/runs/{api.post(f'{TEXTS}/ingest').json()['run_id']}"
        slow.wait_for(2 * BATCH)
        db.execute(f"lock table {table}")
        slow.let_through(100)
        until(lambda: db.execute(blocked).fetchone())
        postgres.end_sessions()
        db.commit()
        until(lambda: api.get(where).json().get("finished_at"))
        run = api.get(where).json()
        documents = api.get(f"{TEXTS}/documents", params={"state": "ready", "limit": 100}).json()
    assert run["status"] == "completed", run
    assert len(documents["items"]) == DOCUMENTS
    assert len(slow.embedded()) <= DOCUMENTS + BATCH


def test_knowledge_bases_spread_over_workers(slow: Slow) -> None:
    """Each worker takes one ingest at a time; one that stops in order leaves its run to others.

    It does not wait for an embedder that hangs.
    """
    constants = SOON | {"lorebind.server.run_worker:_STOP_SECONDS": 0.5}
    slow.environ[CONSTANTS] = json.dumps(constants | {"lorebind.server.ending:LAST_SECONDS": 0.5})
    declare(
        slow,
        lambda declared: declared["knowledge_bases"].extend(
            {**declared["knowledge_bases"][0], "id": name, "ingest": "on_start"}
            for name in ("more", "most")
        ),
    )
    with serving(slow.folder, ready=False, **slow.environ) as server, server.client() as api:

        def statuses() -> list[str]:
            return [
                run["status"]
                for name in ("more", "texts")
                for run in api.get(f"/knowledge-bases/{name}/runs").json()["items"]
            ]

        api.post(f"{TEXTS}/ingest")
        until(lambda: statuses() == ["waiting", "waiting"])
        with working(slow.folder, **slow.environ) as first:
            until(lambda: sorted(statuses()) == ["running", "waiting"])
            with working(slow.folder, **slow.environ):
                until(lambda: statuses() == ["running", "running"])
                first.send_signal(signal.SIGTERM)
                assert first.wait(60) == 0
                slow.let_through(1000)
                until(lambda: api.get("http://localhost/readyz").status_code == 200)
                until(lambda: statuses() == ["completed", "completed"])


def test_what_workers_cannot_reach_is_refused(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_DSN", dsn)
    alone = PROJECT | {"server": {"ingests": "workers", "state": {"path": "state.db"}}}
    with pytest.raises(ConfigurationError) as error:
        Project.load(write_project(tmp_path / "alone", alone))
    assert "needs PostgreSQL for the catalog of vector database 'sqlite'" in str(error.value)
    assert "needs PostgreSQL for the server's 'state'" in str(error.value)
    folder = write_project(tmp_path / "file", PROJECT | WORKERS)
    (folder / ".lorebind").mkdir()
    (folder / ".lorebind" / "server.db").touch()
    with Project.load(folder) as project:
        (finding,) = [each for each in project.doctor() if each.part == "workers"]
    assert finding.status == "failed"
    assert "move .lorebind/server.db away" in finding.detail


@pytest.mark.enable_socket
def test_a_pooler_in_transaction_mode(
    slow: Slow, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that only takes ingests refuses it too: nothing would notify it of them."""
    monkeypatch.setattr(postgres_notifications, "_PROBE_SECONDS", 0.2)
    monkeypatch.syspath_prepend(str(slow.folder))
    with closing(Pooler(postgres.port, drops=True)) as pooler:
        address = slow.environ["PG_DSN"].replace(f":{postgres.port}/", f":{pooler.port}/")
        monkeypatch.setenv("PG_DSN", f"{address}&sslmode=disable&gssencmode=disable")
        with Project.load(slow.folder) as project:
            worker = RunWorker(project, 1)
            with pytest.raises(StoreError, match="a connection pooler in transaction mode"):
                asyncio.run(worker.run(once=True))


def test_a_worker_needs_no_package_of_a_server(tmp_path: Path) -> None:
    """Not even one that takes ingests; `lorebind[scale,postgres]` is enough."""
    hide(missing_modules(["lorebind[scale,postgres]"]), tmp_path / "hidden")
    code = "import lorebind.server.run_worker, lorebind.server.ending"
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "hidden")}
    done = run_program([sys.executable, "-c", code], env=environ)
    assert (done.returncode, done.stderr) == (0, "")
