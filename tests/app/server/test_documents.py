"""List, add and delete documents over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.knowledge.documents import pptx_bytes

from .conftest import problem, serving
from .in_process import served
from .test_runs import Slow

HERE = "/knowledge-bases/handbook/documents"
TOURS = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Tours leave at 9."}]}]}
NOTE = {"id": "note.md", "text": "# Note\n\nThe shop is closed.", "title": "Note"}


@pytest.fixture(scope="module")
def api(api: httpx.Client) -> httpx.Client:
    api.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"})
    return api


def test_one_is_added_replaced_and_deleted(api: httpx.Client) -> None:
    added = api.post(HERE, json=NOTE)
    assert added.status_code == 201
    document = added.json()
    assert document["uri"] == "added:note.md"
    assert (document["state"], document["origin"], document["title"]) == ("ready", "added", "Note")
    where = added.headers["location"].removeprefix("/api/v0")
    assert where == f"{HERE}/{document['id']}"
    assert api.get(where).json() == document
    chunks = api.get(f"{where}/chunks").json()["items"]
    assert "The shop is closed." in chunks[0]["text"]

    assert api.post(HERE, json={**NOTE, "text": "Open."}).status_code == 200
    assert [item["text"] for item in api.get(f"{where}/chunks").json()["items"]] == ["Open."]
    assert api.delete(where).status_code == 204
    assert problem(api.get(where)) == (404, "not_found")
    assert problem(api.delete(where)) == (404, "not_found")


def test_one_is_excluded_and_included(api: httpx.Client) -> None:
    """A search does not find it in the meantime."""
    document = api.post(HERE, json=NOTE).json()
    where = f"{HERE}/{document['id']}"

    def finds() -> bool:
        body = {"query": "Is the shop closed?", "top_k": 9}
        matches = api.post("/knowledge-bases/handbook/query", json=body).json()["matches"]
        return any(match["metadata"]["uri"] == document["uri"] for match in matches)

    assert (document["excluded"], finds()) == (False, True)
    for _ in range(2):
        assert api.post(f"{where}/exclude").json() == {**document, "excluded": True}
    assert (api.get(where).json()["excluded"], finds()) == (True, False)
    assert api.post(f"{where}/include").json() == document
    assert finds()
    assert problem(api.post(f"{HERE}/{'0' * 24}/exclude")) == (404, "not_found")
    api.delete(where)


def test_a_file(api: httpx.Client) -> None:
    page = b"<html><body><p>Gift cards never expire.</p></body></html>"
    about = {"id": "gifts", "title": "Gifts", "metadata": '{"shop": "Bern", "year": 2026}'}
    file = {"file": ("cards.html", page, "text/html")}
    added = api.post(HERE, files=file, data=about)
    assert (added.status_code, added.json()["uri"]) == (201, "added:gifts")
    where = added.headers["location"].removeprefix("/api/v0")
    (chunk,) = api.get(f"{where}/chunks").json()["items"]
    assert chunk["text"] == "Gift cards never expire."
    assert chunk["metadata"].items() >= {"title": "Gifts", "shop": "Bern", "year": 2026}.items()
    api.delete(where)


def test_parts_without_text_are_counted(api: httpx.Client) -> None:
    """A document, the list and the report have the number of slides without text."""
    slides = pptx_bytes(("Gift cards never expire.", ""), *[("", "")] * 3)
    added = api.post(HERE, files={"file": ("cards.pptx", slides)})
    parts = {"slide": 3}
    assert (added.json()["textless_parts"], added.json()["textless_pages"]) == (parts, 0)
    listed = {item["uri"]: item["textless_parts"] for item in api.get(HERE).json()["items"]}
    assert listed.pop("added:cards.pptx") == parts
    assert not any(listed.values())
    ingested = api.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"})
    assert ingested.json()["report"]["textless_parts"] == {"added:cards.pptx": parts}
    api.delete(f"{HERE}/{added.json()['id']}")


def test_several_have_a_result_each(api: httpx.Client) -> None:
    documents = [
        NOTE,
        {"id": "x"},
        {"text": " "},
        {"id": "b", "text": "B."},
        5,
    ]
    answered = api.post(HERE, json={"documents": documents})
    assert answered.status_code == 200
    results = answered.json()["results"]
    assert [result["status"] for result in results] == [201, 422, 422, 201, 422]
    wrong = [result["error"]["errors"][0]["pointer"] for result in results if "error" in result]
    assert wrong == ["/documents/1/text", "/documents/2/text", "/documents/4"]
    for result in (results[0], results[3]):
        assert api.delete(f"{HERE}/{result['document']['id']}").status_code == 204
    assert problem(api.post(HERE, json={"text": "B" * 5 * 2**20})) == (413, "too_large")
    assert problem(api.post(HERE, json={"documents": []})) == (422, "invalid_request")
    assert problem(api.post(HERE, json={"documents": [NOTE] * 101})) == (422, "invalid_request")


def test_two_with_one_id(api: httpx.Client) -> None:
    """The second is refused if it is different; equal ones are added once."""
    documents = [{"id": "q", "text": "One."}, {"id": "q", "text": "Two."}, *[{"text": "Same."}] * 2]
    answered = api.post(HERE, json={"documents": documents}).json()
    assert [result["status"] for result in answered["results"]] == [201, 422, 201, 201]
    assert "the same id, 'q'" in answered["results"][1]["error"]["detail"]
    assert answered["results"][1]["error"]["errors"][0]["pointer"] == "/documents/1/id"
    first, _, same, again = answered["results"]
    assert same == again
    for result in (first, same):
        where = f"{HERE}/{result['document']['id']}"
        assert api.get(where).json()["state"] == "ready"
        assert api.delete(where).status_code == 204
    files = [("files", ("q", b"One.")), ("files", ("q", b"Two."))]
    answered = api.post(HERE, files=files).json()
    assert [result["status"] for result in answered["results"]] == [201, 422]
    assert answered["results"][1]["error"]["errors"][0]["pointer"] == "/files/1"
    assert api.delete(f"{HERE}/{answered['results'][0]['document']['id']}").status_code == 204


def test_pages(api: httpx.Client) -> None:
    api.post(HERE, json={"documents": [{"id": f"n{n}", "text": f"N{n}."} for n in range(5)]})
    everything = [item["uri"] for item in api.get(HERE).json()["items"]]
    assert len(everything) == 7
    page = api.get(HERE, params={"limit": 3})
    seen = [item["uri"] for item in page.json()["items"]]
    while page.json()["next"]:
        page = api.get(HERE, params={"limit": 3, "cursor": page.json()["next"]})
        seen += [item["uri"] for item in page.json()["items"]]
    assert seen == everything
    page = api.get(HERE, params={"limit": 3, "cursor": page.json()["previous"]})
    assert [item["uri"] for item in page.json()["items"]] == everything[3:6]
    assert api.get(HERE, params={"state": "failed"}).json()["items"] == []
    assert problem(api.get(HERE, params={"state": "x"})) == (422, "invalid_request")


def test_chunks_in_pages(api: httpx.Client) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "word " * 100 for n in range(7))
    where = api.post(HERE, json={"id": "long", "text": text}).headers["location"]
    where = where.removeprefix("/api/v0") + "/chunks"
    everything = api.get(where, params={"limit": 100}).json()["items"]
    page = api.get(where, params={"limit": 2}).json()
    seen = page["items"]
    while page["next"]:
        page = api.get(where, params={"limit": 2, "cursor": page["next"]}).json()
        seen += page["items"]
    assert seen == everything
    assert len(seen) > 2


def test_what_a_source_gives_stays(api: httpx.Client) -> None:
    (document,) = [
        item for item in api.get(HERE).json()["items"] if item["uri"] == "inline:returns"
    ]
    assert problem(api.delete(f"{HERE}/{document['id']}")) == (409, "document_of_source")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"content": b"{"}, (415, "unsupported_media_type")),
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, (400, "invalid_json")),
        (
            {"content": b"\xff", "headers": {"Content-Type": "application/json"}},
            (400, "invalid_json"),
        ),
        ({"json": {}}, (422, "invalid_request")),
        ({"json": []}, (422, "invalid_request")),
        ({"json": {**NOTE, "nonsense": 1}}, (422, "invalid_request")),
        ({"json": {**NOTE, "text": "\0"}}, (422, "invalid_request")),
        ({"files": {"other": b"x"}}, (422, "invalid_request")),
        ({"files": {"file": b""}}, (422, "invalid_request")),
    ],
)
def test_what_cannot_be_added(
    api: httpx.Client, options: dict[str, Any], answer: tuple[int, str]
) -> None:
    assert problem(api.post(HERE, **options)) == answer


@pytest.mark.parametrize(
    ("form", "pointers"),
    [
        ([("other", "x"), ("more", "y")], ["/file", "/more", "/other"]),
        ([("file", "x"), ("metadata", "{")], ["/file", "/metadata"]),
        (
            [("file", ("a", b"x")), ("title", "x" * 2001), ("metadata", "[]")],
            ["/metadata", "/title"],
        ),
        ([("file", ("a", b"x")), ("metadata", '{"a": "\\u0000"}')], ["/metadata/a"]),
        ([("file", ("a", b"x")), ("file", ("b", b"y"))], ["/file"]),
        ([("files", ("a", b"x")), ("files", "text"), ("title", "y")], ["/files/1", "/title"]),
        ([("file", ("a", b""))], ["/file"]),
    ],
)
def test_all_mistakes_of_a_form_are_told_at_once(
    api: httpx.Client, form: list[tuple[str, Any]], pointers: list[str]
) -> None:
    parts = [(name, part if isinstance(part, tuple) else (None, part)) for name, part in form]
    refused = api.post(HERE, files=parts)
    assert problem(refused) == (422, "invalid_request")
    assert sorted(error["pointer"] for error in refused.json()["errors"]) == pointers


@pytest.mark.parametrize("what", ["documents", "a document", "a knowledge base"])
async def test_a_deletion_may_take_longer_than_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """If the client accepts events, it gets one when everything is deleted."""
    deleted: list[str] = []

    async def slowly(*_: Any) -> None:
        await asyncio.sleep(1.2)
        deleted.append(what)

    monkeypatch.setattr("lorebind_knowledge.documents.changing.delete_all", slowly)
    monkeypatch.setattr("lorebind_knowledge.documents.changing.delete_document", slowly)
    async with served(tmp_path, seconds=1) as here, here.client() as api:
        where = {"documents": HERE, "a knowledge base": "/knowledge-bases/tours"}.get(what)
        if what == "a knowledge base":
            await api.put("/knowledge-bases/tours", json=TOURS)
        elif where is None:
            added = await api.post(HERE, json=NOTE, headers={"Prefer": "wait=20"})
            where = added.headers["location"].removeprefix("/api/v0")
        else:
            late = await api.delete(where)
            assert problem(late) == (504, "timeout")
            assert late.json()["detail"].endswith("send: Accept: text/event-stream")
        done = await api.delete(where, headers={"Accept": "text/event-stream"})
        assert done.text.splitlines()[:2] == ["event: result", "data: {}"]
        assert deleted == [what]


def test_while_an_ingest_runs(tmp_path: Path) -> None:
    slow = Slow(tmp_path / "slow")
    with serving(slow.folder, **slow.environ) as server, server.client() as api:
        run_id = api.post("/knowledge-bases/texts/ingest").json()["run_id"]
        slow.wait_for(1)
        added = api.post("/knowledge-bases/texts/documents", json=NOTE)
        assert added.status_code == 202
        assert added.json()["state"] == "pending"
        slow.let_through(100)
        run = f"/knowledge-bases/texts/runs/{run_id}"
        where = added.headers["location"].removeprefix("/api/v0")
        while api.get(run).json()["status"] == "running" or api.get(where).json()["chunks"] == 0:
            pass
        assert api.get(where).json()["state"] == "ready"
