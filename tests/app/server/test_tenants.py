"""The data of one tenant does not exist for another, on every route."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .conftest import PROJECT, problem, serving, write_project
from .in_process import served

SECRET = "Zebrawood"
MINE = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": f"{SECRET} is brown."}]}]}
BODIES: dict[str, Any] = {
    "query": {"query": "x"},
    "why": {"query": "x", "document": "x"},
    "documents": {"id": "x", "text": "x"},
    "resume": {"answers": {}},
    "replay": {"step": 0},
    "runs": {"input": {}},
    "rollback": {},
    "delete": {"filters": {"team": "x"}},
}


class Two:
    """A server, and a client of each of two tenants."""

    def __init__(self, ann: httpx.Client, bob: httpx.Client) -> None:
        self.ann, self.bob = ann, bob


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = write_project(tmp_path_factory.mktemp("shop"), PROJECT)
    with (
        serving(folder) as server,
        server.client(headers={"X-Tenant-ID": "ann"}) as ann,
        server.client(headers={"X-Tenant-ID": "bob"}) as bob,
    ):
        yield Two(ann, bob)


@pytest.fixture(scope="module")
def ids(two: Two) -> dict[str, str]:
    """Return the ids of Ann's data, by the names of path parameters."""
    assert two.ann.put("/knowledge-bases/zebras", json=MINE).status_code == 201
    run = two.ann.post("/knowledge-bases/zebras/ingest", headers={"Prefer": "wait=20"}).json()
    added = two.ann.post("/knowledge-bases/zebras/documents", json={"id": "b", "text": SECRET})
    ids = {"kb_id": "zebras", "run_id": run["run_id"], "doc_id": added.json()["id"]}
    return ids | {"page": "1"}


def routes(api: httpx.Client) -> list[tuple[str, str]]:
    """Return the method and the path of every route below a knowledge base."""
    paths = api.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path.removeprefix("/api/v0"))
        for path, operations in paths.items()
        for method in operations
        if "{kb_id}" in path
    ]


def test_every_route_with_what_another_has(two: Two, ids: dict[str, str]) -> None:
    operations = routes(two.bob)
    assert len(operations) >= 15
    for method, path in operations:
        if method == "PUT":
            continue
        where = re.sub(r"\{(\w+)\}", lambda name: ids[name[1]], path)
        body = BODIES.get(path.rpartition("/")[2]) if method == "POST" else None
        words = {"pattern": "x", "document": ids["doc_id"]}
        refused = two.bob.request(method, where, json=body, params=words)
        assert problem(refused) == (404, "not_found"), (method, path)
        assert SECRET not in refused.text
        assert "zebras" not in refused.text.replace(where, "").replace("'zebras'", "")


def test_a_run_or_document_of_another_in_a_knowledge_base_of_all(
    two: Two, ids: dict[str, str]
) -> None:
    """Both tenants see the YAML's knowledge bases, but each only its own content."""
    note = {"id": "secret", "text": SECRET}
    document = two.ann.post("/knowledge-bases/handbook/documents", json=note).json()["id"]
    run = two.ann.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"}).json()
    here = "/knowledge-bases/handbook"
    for method, path in (
        ("GET", f"{here}/documents/{document}"),
        ("DELETE", f"{here}/documents/{document}"),
        ("GET", f"{here}/documents/{document}/chunks"),
        ("GET", f"{here}/documents/{document}/pages/1"),
        ("GET", f"{here}/documents/{document}/pages/1/boxes"),
        ("POST", f"{here}/documents/{document}/exclude"),
        ("POST", f"{here}/documents/{document}/include"),
        ("POST", f"{here}/documents/{document}/retry"),
        ("GET", f"{here}/runs/{run['run_id']}"),
        ("GET", f"{here}/runs/{run['run_id']}/events"),
        ("DELETE", f"{here}/runs/{run['run_id']}"),
    ):
        assert problem(two.bob.request(method, path)) == (404, "not_found"), path
    assert two.bob.get(f"{here}/documents").json()["items"] == []
    for name in ("runs", "skipped"):
        assert two.bob.get(f"{here}/{name}").json()["items"] == []
    assert set(two.bob.get(f"{here}/stats").json()["documents"].values()) == {0}
    answer = two.bob.post(f"{here}/query", json={"query": SECRET})
    assert problem(answer) == (409, "not_ingested")
    assert two.bob.get(f"{here}/fields").json() == {"items": []}
    words = {"pattern": SECRET, "document": document}
    for name in ("find", "fetch"):
        assert problem(two.bob.get(f"{here}/{name}", params=words)) == (409, "not_ingested")
        assert SECRET in two.ann.get(f"{here}/{name}", params=words).text
    assert two.ann.post(f"{here}/query", json={"query": SECRET}).json()["matches"]


def test_lists_and_metrics(two: Two, ids: dict[str, str]) -> None:
    listed = [item["id"] for item in two.bob.get("/knowledge-bases").json()["items"]]
    assert listed == ["handbook"]
    metrics = two.bob.get("http://localhost/metrics")
    assert metrics.status_code == 200
    for hidden in ("zebras", "ann", SECRET):
        assert f'"{hidden}"' not in metrics.text


def test_both_may_have_the_same_id(two: Two, ids: dict[str, str]) -> None:
    other = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Stripes."}]}]}
    assert two.bob.put("/knowledge-bases/zebras", json=other).status_code == 201
    two.bob.post("/knowledge-bases/zebras/ingest", headers={"Prefer": "wait=20"})
    body = {"query": "stripes and brown", "top_k": 5}
    for api, text in ((two.bob, "Stripes."), (two.ann, f"{SECRET} is brown.")):
        matches = api.post("/knowledge-bases/zebras/query", json=body).json()["matches"]
        assert text in [match["text"] for match in matches]
        assert len({match["text"] for match in matches} & {"Stripes.", f"{SECRET} is brown."}) == 1
    assert two.bob.delete("/knowledge-bases/zebras").status_code == 204
    assert two.ann.get("/knowledge-bases/zebras").status_code == 200
    assert two.ann.get("/knowledge-bases/zebras/stats").json()["chunks"] == 2


def test_one_key_of_two_tenants_is_two_runs(two: Two) -> None:
    def run(api: httpx.Client) -> str:
        key = {"Idempotency-Key": "both"}
        reply = api.post("/knowledge-bases/handbook/ingest", headers=key)
        return str(reply.json()["run_id"])

    assert run(two.ann) != run(two.bob)


async def test_an_open_server_of_a_project_that_requires_a_tenant(tmp_path: Path) -> None:
    """Without tokens, requests for data need `X-Tenant-ID`; a token names its tenant itself."""
    query = {"query": "When do you open?"}
    triage = {"id": "triage", "tasks": [{"id": "say", "prompt": "Hello."}]}
    more = {"tenancy": "required", "workflows": [triage]}
    async with served(tmp_path, more) as here, here.client() as nobody:
        for method, path in (
            ("GET", "/knowledge-bases"),
            ("GET", "/knowledge-bases/handbook/documents"),
            ("POST", "/knowledge-bases/handbook/ingest"),
            ("POST", "/knowledge-bases/handbook/query"),
            ("PUT", "/knowledge-bases/zebras"),
            ("GET", "/workflows/triage/threads"),
        ):
            body = MINE if method == "PUT" else query if path.endswith("query") else None
            refused = await nobody.request(method, path, json=body)
            assert problem(refused) == (400, "tenant_required"), (method, path)
        assert (await nobody.get("/bindings")).status_code == 200
        assert (await nobody.get("http://localhost/metrics")).status_code == 200
        async with here.client(**{"X-Tenant-ID": "ann"}) as ann:
            assert (await ann.get("/knowledge-bases/handbook/documents")).status_code == 200
        async with here.client(here.token("app", "read", "ann")) as app:
            assert (await app.get("/knowledge-bases/handbook/documents")).status_code == 200
