"""The ingests that Python and the command line began, beside the requested ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from lorebind import Project
from lorebind_knowledge.plumbing.bridge import call
from tests.bindings.helpers import write

from .in_process import Served, problem, served

FILES = {"docs/a.md": "# Keys\n\nKeys.\n", "docs/b.json": "{", "docs/c.zip": "PK", "docs/d.bin": ""}
KB = {"id": "docs", "sources": [{"type": "file_glob", "path": "docs/*"}]}
HERE = "/knowledge-bases/docs"
WAIT = {"Prefer": "wait=20"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    write(tmp_path, FILES)
    async with served(tmp_path, {"knowledge_bases": [KB]}) as server:
        yield server


def ingested(folder: Path, run_id: str) -> None:
    """Ingest as another program does."""
    with Project.load(folder) as project:
        project.knowledge_base("docs").ingest(run_id=run_id)


async def every_run(api: httpx.AsyncClient) -> list[str]:
    """Return all runs, read in pages; those read backwards are the same."""
    page = (await api.get(f"{HERE}/runs?limit=2")).json()
    forth = back = [run["run_id"] for run in page["items"]]
    while page["next"]:
        page = (await api.get(f"{HERE}/runs?limit=2&cursor={page['next']}")).json()
        back = [run["run_id"] for run in page["items"]]
        forth = forth + back
    while page["previous"]:
        page = (await api.get(f"{HERE}/runs?limit=2&cursor={page['previous']}")).json()
        back = [run["run_id"] for run in page["items"]] + back
    assert back == forth
    return forth


async def test_all_are_listed_in_order(server: Served, tmp_path: Path) -> None:
    """Each is listed once, in pages of both directions."""
    expected: list[str] = []
    async with server.client() as api:
        for number in range(7):
            if number in (1, 4):
                run = (await api.post(f"{HERE}/ingest", headers=WAIT)).json()
                expected.insert(0, run["run_id"])
            else:
                await call(ingested, tmp_path, f"mine {number}")
                expected.insert(0, f"mine {number}")
        assert await every_run(api) == expected
        newest = (await api.get(f"{HERE}/runs?limit=1")).json()["items"][0]
        assert newest == (await api.get(f"{HERE}/runs/mine 6")).json()
        assert (newest["origin"], newest["status"]) == ("elsewhere", "completed_with_failures")
        assert newest["request"] == {"strategy": "upsert"}
        assert newest["report"]["documents"]["failed"] == 1
        short = (await api.get(f"{HERE}/runs?limit=1&brief=true")).json()["items"][0]
        assert (short["report"]["failures"], short["report"]["sources"]) == ([], [])
        assert short["report"]["documents"] == newest["report"]["documents"]
        requested = (await api.get(f"{HERE}/runs/{expected[2]}")).json()
        assert requested["origin"] == "server"
        assert (await api.delete(f"{HERE}/runs/mine 6")).json() == newest
        events = (await api.get(f"{HERE}/runs/mine 6/events")).text
        assert f"event: end\ndata: {json.dumps(newest, ensure_ascii=False)}" in events
        stats = (await api.get(f"{HERE}/stats")).json()
        assert stats["last_good_run"]["run_id"] == "mine 6"
        assert stats["last_good_run"]["ended_at"] == newest["finished_at"]


async def test_one_that_runs_or_has_died(server: Served) -> None:
    """How far it is; it can only be stopped by the program that started it."""
    kb = server.server.project.knowledge_base("docs")
    catalog, counts = kb.handle.index.catalog, {"documents": 3, "documents_read": 1}
    async with server.client() as api:
        async with catalog.hold_lease(kb.handle.namespace, wait=False) as lease:
            await call(catalog.ledger.start_run, lease, "upsert", "failed")
            await call(catalog.ledger.finish_run, lease, "failed", "failed", {"error": "no"})
            await call(catalog.ledger.start_run, lease, "upsert", "theirs")
            await call(catalog.runs.store_progress, lease, "theirs", counts)
            run, failed = (await api.get(f"{HERE}/runs")).json()["items"]
            error = failed["error"]
            assert (error["code"], error["status"], error["detail"]) == ("ingest_failed", 502, "no")
            assert (run["status"], run["progress"]) == ("running", counts)
            refused = await api.delete(f"{HERE}/runs/theirs")
            assert problem(refused) == (409, "started_elsewhere")
        run = (await api.get(f"{HERE}/runs/theirs")).json()
        assert (run["status"], run["finished_at"]) == ("interrupted", None)
        assert (await api.delete(f"{HERE}/runs/theirs")).json() == {**run, "progress": None}
        assert (
            "event: end" in (await api.get(f"{HERE}/runs/theirs/events")).text
        )  # it does not hang


async def test_a_failed_document_is_tried_again(server: Served, tmp_path: Path) -> None:
    """Only that one is read, and the run is like any other."""
    async with server.client() as api:
        await api.post(f"{HERE}/ingest", headers=WAIT)
        (failed,) = (await api.get(f"{HERE}/documents?state=failed")).json()["items"]
        where = f"{HERE}/documents/{failed['id']}"
        again = await api.post(f"{where}/retry", headers=WAIT)
        assert again.json()["report"]["documents"]["failed"] == 1
        assert (await api.get(where)).json()["attempts"] == 2
        write(tmp_path, {"docs/a.md": "# Keys\n\nChanged.\n", "docs/b.json": '{"key": "mended"}'})
        run = await api.post(f"{where}/retry", headers=WAIT)
        assert run.status_code == 200
        location = run.headers["location"]
        assert location == f"/api/v0{HERE}/runs/{run.json()['run_id']}"
        counts = run.json()["report"]["documents"]
        assert counts == {"added": 1, "updated": 0, "removed": 0, "unchanged": 0, "failed": 0}
        assert (await api.get(where)).json()["state"] == "ready"
        (tmp_path / "docs/b.json").unlink()
        gone = (await api.post(f"{where}/retry", headers=WAIT)).json()["report"]
        assert gone["notices"] == ["docs/b.json was not read, because no source lists it now"]
        unknown = await api.post(f"{HERE}/documents/nope/retry")
        assert problem(unknown) == (404, "not_found")
        reader = server.client(server.token("reader", "read"))
        assert problem(await reader.post(f"{where}/retry")) == (403, "forbidden")
        assert (await reader.get(f"{HERE}/skipped")).status_code == 200
        assert problem(await reader.get("/workers")) == (403, "forbidden")
        admin = server.client(server.token("admin"))
        assert (await admin.get("/workers")).json() == {"items": []}


async def test_what_was_skipped_in_pages(server: Served, tmp_path: Path) -> None:
    """Each with its reason and the setting that reads it; added documents change nothing."""
    write(tmp_path, {"docs/.hidden/e.md": "E", "docs/node_modules/f.md": "F"})
    async with server.client() as api:
        assert (await api.get(f"{HERE}/skipped")).json()["items"] == []
        await api.post(f"{HERE}/ingest", headers=WAIT)
        await api.post(f"{HERE}/documents", json={"id": "x", "text": "X"})
        first = (await api.get(f"{HERE}/skipped?limit=1")).json()
        rest = (await api.get(f"{HERE}/skipped?cursor={first['next']}")).json()
        before = (await api.get(f"{HERE}/skipped?cursor={rest['previous']}")).json()
        assert before["items"] == first["items"]
        items = first["items"] + rest["items"]
        assert [(item["uri"], item["reason"]) for item in items] == [
            ("docs/c.zip", ".zip"),
            ("docs/d.bin", ".bin"),
        ]
        kb = server.server.project.knowledge_base("docs")
        assert [item.uri for item in await kb.askipped(before="docs/d")] == ["docs/c.zip"]


async def test_chunks_say_what_was_embedded_with_them(server: Served) -> None:
    async with server.client() as api:
        await api.post(f"{HERE}/ingest", headers=WAIT)
        (document,) = (await api.get(f"{HERE}/documents?state=ready")).json()["items"]
        where = f"{HERE}/documents/{document['id']}/chunks"
        (chunk,) = (await api.get(where)).json()["items"]
        for lines, some in (
            ("first_line=3", [chunk]),
            ("first_line=4", []),
            ("last_line=1", [chunk]),
        ):
            assert (await api.get(f"{where}?{lines}")).json()["items"] == some
        refused = await api.get(f"{where}?first_line=10&last_line=5")
        assert problem(refused) == (422, "invalid_request")
        kb = server.server.project.knowledge_base("docs")
        assert chunk["context"] == (await kb.achunks("docs/a.md"))[0].context == "Keys"
