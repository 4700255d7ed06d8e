"""A PostgreSQL that hangs, or is killed, beneath a server."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import serving, write_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from tests.postgres import Server

    from .conftest import Process


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
    with serving(folder, DSN=own_postgres.dsn()) as made, made.client() as api:
        for name in ("store", "depot"):
            run = api.post(f"/knowledge-bases/{name}/ingest", headers={"Prefer": "wait=20"}).json()
            assert run["status"] == "completed", run
        yield made


def query(api: httpx.Client, name: str) -> httpx.Response:
    return api.post(f"/knowledge-bases/{name}/query", json={"query": "When does it open?"})


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Stop all processes of a server, as a disk that hangs does."""
    family = [server.process, *children(server.process)]
    for one in family:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in family:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def children(process: int) -> list[int]:
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(one) for one in file.read().split()]


def test_a_frozen_database_delays_no_other(process: Process, own_postgres: Server) -> None:
    """After a burst of requests to a database that hangs, all others are answered as before."""
    with process.client() as api, ThreadPoolExecutor(40) as burst, frozen(own_postgres):
        for _ in range(16):
            burst.submit(query, api, "depot")
            burst.submit(api.get, "/knowledge-bases/depot/documents")
        time.sleep(0.5)  # until the server works on them
        for _ in range(3):
            assert len(query(api, "store").json()["matches"]) == 1
            assert len(api.get("/knowledge-bases").json()["items"]) == 2
            assert len(api.get("/knowledge-bases/store/documents").json()["items"]) == 1
            assert api.get("/knowledge-bases/store/stats").json()["chunks"] == 1


def test_a_killed_database_is_a_503_until_it_returns(tmp_path: Path, own_postgres: Server) -> None:
    """While PostgreSQL is down, requests are refused without a traceback; then they work again."""
    with own_postgres.connect() as db:
        db.execute("create extension vector")
    dsn = "{{ .env.DSN }}"
    shared = {"server": {"state": {"dsn": dsn}}, "checkpointer": {"type": "postgres", "dsn": dsn}}
    folder = write_project(tmp_path / "shop", project(own_postgres.dsn()) | shared)
    paths = ("/knowledge-bases", "/knowledge-bases/depot/runs", "/knowledge-bases/depot/documents")
    with serving(folder, DSN=own_postgres.dsn()) as made, made.client() as api:
        run = api.post("/knowledge-bases/depot/ingest", headers={"Prefer": "wait=20"}).json()
        assert run["status"] == "completed", run
        for change, expected in ((None, 200), (own_postgres.stop, 503), (own_postgres.start, 200)):
            if change is not None:
                change()
            deadline = time.monotonic() + 30  # the tokens are read again after a while
            while query(api, "depot").status_code != expected:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert [api.get(path).status_code for path in paths] == [expected] * 3
        code, output = made.stop()
    assert code == 0
    assert "Traceback" not in output
