"""A PostgreSQL that hangs, or is killed, beneath a server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.postgres import Server

from .conftest import Process, problem, serving, write_project


def project(dsn: str) -> dict[str, Any]:
    def base(name: str, vector_db: str) -> dict[str, Any]:
        documents = [{"id": "hours", "text": f"The {name} opens at nine."}]
        sources = [{"type": "inline", "documents": documents}]
        return {"id": name, "vector_db": vector_db, "sources": sources}

    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing"}],
        "vector_dbs": [
            {"id": "here", "type": "sqlite"},
            {"id": "there", "type": "pgvector", "config": {"dsn": "{{ .env.DSN }}"}},
        ],
        "knowledge_bases": [base("store", "here"), base("depot", "there")],
    }


@pytest.fixture
def process(tmp_path: Path, own_postgres: Server) -> Iterator[Process]:
    with own_postgres.connect() as db:
        db.execute("create extension vector")
    folder = write_project(tmp_path / "shop", project(own_postgres.dsn()))
    with serving(folder, DSN=own_postgres.dsn()) as server, server.client() as api:
        for name in ("store", "depot"):
            run = api.post(f"/knowledge-bases/{name}/ingest", headers={"Prefer": "wait=20"}).json()
            assert run["status"] == "completed", run
        yield server


def query(api: httpx.Client, name: str) -> httpx.Response:
    return api.post(f"/knowledge-bases/{name}/query", json={"query": "When does it open?"})


def test_a_frozen_database_delays_no_other(process: Process, own_postgres: Server) -> None:
    """After a burst of requests to a database that hangs, all others are answered as before."""
    with process.client() as api, ThreadPoolExecutor(40) as burst, own_postgres.frozen():
        for _ in range(16):
            burst.submit(query, api, "depot")
            burst.submit(api.get, "/knowledge-bases/depot/documents")
        time.sleep(0.5)  # until the server works on them
        for _ in range(3):
            assert len(query(api, "store").json()["matches"]) == 1
            assert len(api.get("/knowledge-bases").json()["items"]) == 2
            assert len(api.get("/knowledge-bases/store/documents").json()["items"]) == 1
            assert api.get("/knowledge-bases/store/stats").json()["chunks"] == 1


PATHS = ("/knowledge-bases", "/knowledge-bases/depot/runs", "/knowledge-bases/depot/documents")


@contextmanager
def serving_with_shared_state(folder: Path, postgres: Server) -> Iterator[Process]:
    """Run a server whose state, threads, catalog and vectors are in PostgreSQL."""
    with postgres.connect() as db:
        db.execute("create extension vector")
    dsn = "{{ .env.DSN }}"
    shared = {"server": {"state": {"dsn": dsn}}, "checkpointer": {"type": "postgres", "dsn": dsn}}
    write_project(folder, project(postgres.dsn()) | shared)
    with serving(folder, DSN=postgres.dsn()) as server, server.client() as api:
        run = api.post("/knowledge-bases/depot/ingest", headers={"Prefer": "wait=20"}).json()
        assert run["status"] == "completed", run
        yield server


def wait_for(api: httpx.Client, status: int) -> None:
    deadline = time.monotonic() + 40  # the tokens are read again after a while
    while query(api, "depot").status_code != status:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [api.get(path).status_code for path in PATHS] == [status] * 3


def test_a_killed_database_is_a_503_until_it_returns(tmp_path: Path, own_postgres: Server) -> None:
    """While PostgreSQL is down, requests are refused; the log has one line about the outage."""
    with (
        serving_with_shared_state(tmp_path / "shop", own_postgres) as server,
        server.client() as api,
    ):
        own_postgres.stop()
        wait_for(api, 503)
        for _ in range(8):  # the server tries to reach its state several times
            assert api.get("/knowledge-bases").status_code == 503
            time.sleep(0.4)
        own_postgres.start()
        wait_for(api, 200)
        code, output = server.stop()
    assert code == 0
    assert "Traceback" not in output
    for failure in ("the tokens", "requested ingests", "runs of workflows"):
        assert output.count(f"{failure} cannot be read") == 1
    assert output.count("the tokens can be read again") == 1


def test_a_frozen_state_is_a_503_until_it_returns(tmp_path: Path, own_postgres: Server) -> None:
    """While PostgreSQL hangs, requests that need no state are answered, and the server can end."""
    with (
        serving_with_shared_state(tmp_path / "shop", own_postgres) as server,
        server.client() as api,
    ):
        time.sleep(1.2)  # connections that were idle for a second are checked before use
        with own_postgres.frozen():
            for path in ("healthz", "playground", "docs"):
                assert api.get(f"http://localhost/{path}").status_code == 200
            began = time.monotonic()
            for _ in range(3):  # many probes wait for one question
                unready = api.get("http://localhost/readyz")
                assert problem(unready) == (503, "store_unavailable")
            assert time.monotonic() - began < 25
            refused = api.get("/knowledge-bases")
            assert problem(refused) == (503, "store_unavailable")
            assert refused.headers["retry-after"] == "5"
        wait_for(api, 200)
        time.sleep(1.2)
        assert api.get("http://localhost/readyz").status_code == 200
        with own_postgres.frozen(), ThreadPoolExecutor() as threads:
            waiting = [threads.submit(api.get, path) for path in PATHS]
            time.sleep(0.5)  # until the server works on them
            code, output = server.stop()
            assert {future.result().status_code for future in waiting} == {503}
    assert code == 0
    assert "Traceback" not in output
