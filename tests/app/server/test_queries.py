"""Searches and statistics on a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind import Project
from lorebind.plain_data import as_data
from lorebind.remote import RemoteProject

from .conftest import PROJECT, problem, serving, write_project
from .in_process import served


@pytest.fixture(scope="module")
def api(api: httpx.Client) -> httpx.Client:
    empty = api.post("/knowledge-bases/handbook/query", json={"query": "returns"})
    assert problem(empty) == (409, "not_ingested")
    run = api.post("/knowledge-bases/handbook/ingest", headers={"Prefer": "wait=20"})
    assert run.json()["status"] == "completed"
    return api


def test_a_question(api: httpx.Client) -> None:
    answer = api.post("/knowledge-bases/handbook/query", json={"query": "shipping", "top_k": 1})
    assert answer.status_code == 200
    (match,) = answer.json()["matches"]
    assert match["text"] == "Shipping takes five working days."
    assert 0 < match["score"] <= 1
    assert match["metadata"]["kb_id"] == "handbook"


def test_every_setting_in_effect(api: httpx.Client) -> None:
    body = {"query": "goods", "strategy": "lexical", "explain": True, "min_score": 0.0}
    answer = api.post("/knowledge-bases/handbook/query", json=body).json()
    assert answer["strategy"] == "lexical"
    assert answer["binding"]["settings"]["strategy"] == "lexical"


def test_several_knowledge_bases(api: httpx.Client) -> None:
    tours = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Tours at 9."}]}]}
    assert api.put("/knowledge-bases/tours", json=tours).status_code == 201
    api.post("/knowledge-bases/tours/ingest", headers={"Prefer": "wait=20"})
    both = {"query": "tours and shipping", "knowledge_bases": ["handbook", "tours"], "top_k": 2}
    answer = api.post("/query", json=both).json()
    assert answer["searched"] == ["handbook", "tours"]
    assert {match["metadata"]["kb_id"] for match in answer["matches"]} == {"handbook", "tours"}
    assert api.delete("/knowledge-bases/tours").status_code == 204
    assert problem(api.post("/query", json=both)) == (404, "not_found")


def test_new_before_old(api: httpx.Client) -> None:
    """Declared and overridden, `recency` and `versions` apply; a wrong value has its place."""
    texts = {"old": "2001-01-01", "new": "2026-01-01"}
    documents = [
        {"id": name, "text": f"The {name} pump has a valve.", "metadata": {"product": 1, "at": at}}
        for name, at in texts.items()
    ]
    retrieval = {"strategy": "similarity", "versions": {"by": ["product"], "field": "at"}}
    manuals = {"sources": [{"type": "inline", "documents": documents}], "retrieval": retrieval}
    assert api.put("/knowledge-bases/manuals", json=manuals).status_code == 201
    where = "/knowledge-bases/manuals"
    api.post(f"{where}/ingest", headers={"Prefer": "wait=20"})

    def hits(**settings: Any) -> list[Any]:
        body = {"query": "Which old pump has a valve?", **settings}
        several = {**body, "knowledge_bases": ["manuals"]}
        matches = api.post(f"{where}/query", json=body).json()["matches"]
        others = api.post("/query", json=several).json()["matches"]
        assert [match["id"] for match in others] == [match["id"] for match in matches]
        return [(match["metadata"]["uri"], match["scores"].get("recency")) for match in matches]

    assert hits() == [("inline:new", None)]
    every = {"versions": {"by": ["product"], "newest": False}}
    assert [uri for uri, _ in hits(**every)] == ["inline:old", "inline:new"]
    recency = {"field": "at", "half_life": "9y", "weight": 0.9}
    (first, recent), (last, past) = hits(**every, recency=recency)
    assert (first, last) == ("inline:new", "inline:old")
    assert recent > past
    why = {"query": "pump", "document": "inline:old"}
    assert api.post(f"{where}/why", json=why).json()["lost_at"] == "versions"
    wrong = api.post(f"{where}/query", json={"query": "pump", "recency": {"half_life": "9 months"}})
    assert problem(wrong)[0] == 422
    assert "'9 months' is not an age" in wrong.text
    assert api.delete(where).status_code == 204


async def test_knowledge_bases_with_other_embedders(tmp_path: Path) -> None:
    """They are ordered by rank, and the answer says so. An empty list means what is bound."""
    source = {"type": "inline", "documents": [{"id": "a", "text": "Tours take two hours."}]}
    short = {"id": "short", "provider": "hashing", "config": {"dimension": 64}}
    more = {
        "embedders": [*PROJECT["embedders"], short],
        "knowledge_bases": [
            *PROJECT["knowledge_bases"],
            {"id": "tours", "embedder": "short", "sources": [source]},
        ],
        "agents": [{"id": "guide", "knowledge": [{"id": "tours", "top_k": 1}]}],
    }
    async with served(tmp_path, more) as here, here.client() as api:
        for name in ("handbook", "tours"):
            await here.server.project.aingest(name)
        answer = (await api.post("/query", json={"query": "shipping takes"})).json()
        assert answer["by_ranks"]
        assert "ordered by rank" in answer["notices"][0]
        assert [match["metadata"]["kb_id"] for match in answer["matches"]] == [
            *("handbook", "tours", "handbook")
        ]
        body = {"query": "shipping takes", "agent": "guide", "explain": True}
        answer = (await api.post("/query", json=body)).json()
        assert answer["searched"] == ["tours"]
        assert not answer["by_ranks"]
        assert [binding["id"] for binding in answer["bindings"]] == ["tours"]


def test_matching_terms(tmp_path: Path) -> None:
    """The terms of each passage, for one knowledge base, for several and for a remote project."""
    bases = [
        {"id": name, "sparse": "local", "sources": [{"type": "inline", "documents": [document]}]}
        for name, document in (
            ("setup", {"id": "a", "text": "The installation takes ten minutes on a notebook."}),
            ("office", {"id": "b", "text": "Every employee gets a laptop and a chair."}),
        )
    ]
    folder = write_project(tmp_path / "shop", PROJECT | {"knowledge_bases": bases})
    question = "How do I install it on a laptop?"
    body = {"query": question, "explain": True}
    with Project.load(folder) as project:
        for name in ("setup", "office"):
            project.ingest(name)
        _, _, here = project.knowledge_base("setup").query_explained(question)
    with serving(folder) as server, server.client() as api:
        one = api.post("/knowledge-bases/setup/query", json=body).json()
        several = api.post("/query", json=body | {"knowledge_bases": ["setup", "office"]}).json()
        with RemoteProject(f"unix:{server.socket}") as remote:
            _, _, there = remote.knowledge_base("setup").query_explained(question)
    assert there == here
    assert one["terms"] == as_data(here)
    of_setup, of_office = (
        next(match["id"] for match in several["matches"] if match["metadata"]["kb_id"] == name)
        for name in ("setup", "office")
    )
    assert several["terms"].keys() == {of_setup, of_office}
    assert several["terms"][of_setup] == one["terms"][of_setup]
    assert several["terms"][of_setup]["installation"]["related"]
    assert not several["terms"][of_office]["laptop"]["related"]


def test_exact_words_and_lines(api: httpx.Client) -> None:
    """`find` returns lines with their numbers, and `fetch` those of a document."""
    here = "/knowledge-bases/handbook"
    answer = api.get(f"{here}/find", params={"pattern": "TAKES [a-z]+", "regex": True})
    (passage,) = answer.json()["passages"]
    assert passage["lines"] == [{"line": 1, "text": "Shipping takes five working days."}]
    assert passage["metadata"]["uri"] == passage["uri"]
    tag = {"If-None-Match": answer.headers["etag"]}
    again = api.get(f"{here}/find", params={"pattern": "TAKES [a-z]+", "regex": True}, headers=tag)
    assert again.status_code == 304
    read = api.get(f"{here}/fetch", params={"document": passage["uri"]}).json()
    assert read["text"] == "Shipping takes five working days."
    assert (read["first_line"], read["last_line"], read["gaps"]) == (1, 1, [])
    assert read["chunk_ids"] == [passage["id"]]
    other = {"filters": json.dumps({"uri": "inline:returns"})}
    assert api.get(f"{here}/find", params={"pattern": "takes", **other}).json()["passages"] == []
    hidden = api.get(f"{here}/fetch", params={"document": passage["uri"], **other})
    assert problem(hidden) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "parameters", "expected"),
    [
        ("find", {}, (422, "invalid_request")),
        ("find", {"pattern": " "}, (422, "invalid_request")),
        ("find", {"pattern": "(a", "regex": "true"}, (422, "invalid_request")),
        ("find", {"pattern": "x", "filters": "[1]"}, (422, "invalid_request")),
        ("find", {"pattern": "x", "filters": '{"$x": 1}'}, (422, "invalid_request")),
        ("fetch", {"document": "inline:returns", "filters": "{"}, (422, "invalid_request")),
        ("documents", {"filters": '{"a": {"$in": 1}}'}, (422, "invalid_request")),
        ("documents", {"filters": '{"a": NaN}', "q": "\0%"}, (422, "invalid_request")),
        ("documents", {"q": "x\0", "format": "\0", "filters": '{"\\u0000": 1}'}, None),
        ("find", {"pattern": "x\0"}, None),
        ("find", {"pattern": "x", "document": "a\0"}, (404, "not_found")),
        ("fetch", {}, (422, "invalid_request")),
        ("fetch", {"document": "a\0"}, (404, "not_found")),
        ("fetch", {"document": "inline:returns", "first_line": 0}, (422, "invalid_request")),
        ("fetch", {"document": "inline:returns", "first_line": 2}, (422, "invalid_request")),
    ],
)
def test_a_wrong_reading(
    api: httpx.Client,
    path: str,
    parameters: dict[str, Any],
    expected: tuple[int, str] | None,
) -> None:
    """Mistakes are named; a pattern that no text can contain is no mistake."""
    answer = api.get(f"/knowledge-bases/handbook/{path}", params=parameters)
    if expected is None:
        assert answer.status_code == 200
        assert [] in answer.json().values()
    else:
        assert problem(answer) == expected


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/query"),
        ({"query": ""}, "/query"),
        ({"query": " "}, "/query"),
        ({"query": "x", "top_k": 51}, "/top_k"),
        ({"query": "x", "top_k": "5"}, "/top_k"),
        ({"query": "x", "min_score": 2}, "/min_score"),
        ({"query": "x", "strategy": "psychic"}, "/strategy"),
        ({"query": "x", "filters": {"$nonsense": 1}}, "/filters/$nonsense"),
        ({"query": "x", "filters": {"a/b": [1, {}]}}, "/filters/a~1b/1"),
        ({"query": "x", "filters": {"$not": {"a": {"$in": [[]]}}}}, "/filters/$not/a/$in/0"),
        ({"query": "x", "filters": {"$and": [{"a": 1}, 2]}}, "/filters/$and/1"),
        ({"query": "x", "filters": {"$and": [{}] * 257}}, "/filters"),
        ({"query": "x", "strategy": "rerank"}, "/strategy"),
        ({"query": "x", "nonsense": 1}, "/nonsense"),
        ({"query": "x\0"}, "/query"),
        ({"query": "\ud800"}, "/query"),
    ],
)
def test_a_wrong_question(api: httpx.Client, body: dict[str, Any], pointer: str) -> None:
    refused = api.post(
        "/knowledge-bases/handbook/query",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    assert problem(refused) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_all_mistakes_are_told_at_once(api: httpx.Client) -> None:
    """A body that breaks several rules needs only one correction."""
    filters = {"a": {"$x": 1, "$exists": 1}, "b": "\0", "$or": [{"c": {"$gt": None}}]}
    body = {"query": " ", "top_k": 0, "strategy": "x", "filters": filters}
    refused = api.post("/knowledge-bases/handbook/query", json={**body, "more": 1})
    wrong = ["/filters/$or/0/c/$gt", "/filters/a/$exists", "/filters/a/$x", "/filters/b"]
    pointers = [*wrong, "/more", "/query", "/strategy", "/top_k"]
    assert sorted(error["pointer"] for error in refused.json()["errors"]) == pointers


def test_the_schema_states_the_limits(api: httpx.Client) -> None:
    """The schema has the words of JSON Schema, and a whole number may be written as a decimal."""
    document = api.get("/openapi.json").json()
    top_k = document["components"]["schemas"]["Query"]["properties"]["top_k"]
    assert top_k["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 50}
    body = {"query": "shipping", "top_k": 1.0}
    assert len(api.post("/knowledge-bases/handbook/query", json=body).json()["matches"]) == 1


def test_an_index_of_another_embedder(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop")
    with Project.load(folder) as project:
        project.ingest("handbook")
    other = {"id": "words", "provider": "hashing", "config": {"dimension": 64}}
    write_project(folder, PROJECT | {"embedders": [other]})
    with serving(folder) as server, server.client() as api:
        refused = api.post("/knowledge-bases/handbook/query", json={"query": "goods"})
        assert problem(refused) == (409, "index_mismatch")
        assert refused.json()["suggestions"][0]["command"] == "lorebind knowledge reindex handbook"


def test_counts(api: httpx.Client) -> None:
    counted = api.get("/knowledge-bases/handbook/stats")
    assert counted.json()["documents"] == {"ready": 2, "pending": 0, "failed": 0}
    tag = counted.headers["etag"]
    again = api.get("/knowledge-bases/handbook/stats", headers={"If-None-Match": tag})
    assert again.status_code == 304


async def test_a_part_whose_variable_is_not_set(tmp_path: Path) -> None:
    """A request that needs it is answered with 503 and names it; others are not affected."""
    far = {"id": "far", "provider": "openai", "api_key": "{{ .env.LOREBIND_TEST_NO }}"}
    embedded = {**PROJECT["knowledge_bases"][0], "id": "embedded", "embedder": "far"}
    more = {
        "embedders": [*PROJECT["embedders"], far],
        "knowledge_bases": [*PROJECT["knowledge_bases"], embedded],
    }
    async with served(tmp_path, more) as here, here.client() as api:
        answer = await api.post("/knowledge-bases/embedded/query", json={"query": "x"})
        assert problem(answer) == (503, "not_configured")
        assert "embedder 'far': variable LOREBIND_TEST_NO is not set" in answer.json()["detail"]
        answer = await api.get("/knowledge-bases/handbook/documents")
        assert answer.status_code == 200


def test_why_a_document_is_not_found(api: httpx.Client) -> None:
    """A document's path through a search, and the words highlighted in the best passage."""
    question = "When can I return goods?"
    body = {"query": question, "document": "inline:shipping", "top_k": 1}
    path = api.post("/knowledge-bases/handbook/why", json=body).json()
    assert (path["lost_at"], path["stages"][-1]["of"]) == ("top_k", 1)
    assert path["explanation"].startswith("The search loses inline:shipping at top_k")
    body["document"] = "nothing"
    assert problem(api.post("/knowledge-bases/handbook/why", json=body)) == (404, "not_found")
    result = api.post(
        "/knowledge-bases/handbook/query", json={"query": question, "explain": True}
    ).json()
    match = result["matches"][0]
    marked = [match["text"][start:end] for start, end in result["highlights"][match["id"]]]
    assert marked == ["return", "goods"]
