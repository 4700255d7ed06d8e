"""`/knowledge-bases` against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from lorebind.server.made_here import ALLOWED, REFUSED
from lorebind_config.declarations.base import Declaration
from lorebind_config.declarations.kinds import REGISTRIES
from lorebind_config.declarations.knowledge_bases import KnowledgeBaseDeclaration

from .conftest import PROJECT, problem, serving, write_project

(EMBEDDER,) = PROJECT["embedders"]
BOUND = PROJECT | {"knowledge": [{"id": "handbook"}]}
TOURS = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Tours leave at 9."}]}]}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = write_project(tmp_path_factory.mktemp("shop"), BOUND)
    with serving(folder) as server, server.client() as api:
        yield api


def test_one_is_made_replaced_and_deleted(api: httpx.Client) -> None:
    reply = api.put("/knowledge-bases/tours", json=TOURS)
    assert reply.status_code == 201
    assert reply.headers["location"] == "/api/v0/knowledge-bases/tours"
    assert reply.json()["origin"] == "api"
    tag = reply.headers["etag"]

    got = api.get("/knowledge-bases/tours")
    assert (got.json(), got.headers["etag"]) == (reply.json(), tag)
    unchanged = api.get("/knowledge-bases/tours", headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    weak = f'"x", W/{tag}'
    unchanged = api.get("/knowledge-bases/tours", headers={"If-None-Match": weak})
    assert (unchanged.status_code, unchanged.headers["etag"]) == (304, tag)
    for odd in (f", {tag}", f'"x",, {tag} ,', f'"\xe9", {tag}'):
        headers = {"If-None-Match": odd.encode("latin-1")}
        unchanged = api.get("/knowledge-bases/tours", headers=headers)
        assert unchanged.status_code == 304
    for unseen in (weak, tag, "*"):
        exists = api.put("/knowledge-bases/tours", json=TOURS, headers={"If-None-Match": unseen})
        assert problem(exists) == (412, "precondition_failed")

    other = {**TOURS, "description": "All tours"}
    assert problem(api.put("/knowledge-bases/tours", json=other)) == (428, "precondition_required")
    for stale in ('"x"', f"W/{tag}"):
        refused = api.put("/knowledge-bases/tours", json=other, headers={"If-Match": stale})
        assert problem(refused) == (412, "precondition_failed")
    changed = api.put("/knowledge-bases/tours", json=other, headers={"If-Match": tag})
    assert changed.status_code == 200
    assert changed.json()["knowledge_base"]["description"] == "All tours"

    assert problem(api.delete("/knowledge-bases/tours", headers={"If-Match": tag}))[0] == 412
    assert api.delete("/knowledge-bases/tours").status_code == 204
    assert problem(api.get("/knowledge-bases/tours")) == (404, "not_found")
    assert problem(api.delete("/knowledge-bases/tours")) == (404, "not_found")


def test_of_many_updates_with_one_etag_one_wins(api: httpx.Client) -> None:
    tag = api.put("/knowledge-bases/raced", json=TOURS).headers["etag"]

    def put(number: int) -> int:
        body = {**TOURS, "description": str(number)}
        return api.put("/knowledge-bases/raced", json=body, headers={"If-Match": tag}).status_code

    with ThreadPoolExecutor(32) as threads:
        codes = sorted(threads.map(put, range(32)))
    assert codes == [200] + [412] * 31
    api.delete("/knowledge-bases/raced")


def test_what_the_yaml_declares_stays(api: httpx.Client) -> None:
    got = api.get("/knowledge-bases/handbook").json()
    assert got["origin"] == "yaml"
    assert got["declared_at"].startswith("lorebind.yaml:")
    assert problem(api.put("/knowledge-bases/handbook", json=TOURS)) == (409, "declared_in_yaml")
    refused = api.delete("/knowledge-bases/handbook")
    assert problem(refused) == (409, "declared_in_yaml")
    assert refused.json()["declared_at"] == got["declared_at"]
    (reference,) = refused.json()["references"]
    assert reference.startswith("lorebind.yaml:")


def test_one_can_be_deleted_when_its_embedder_is_gone(tmp_path: Path) -> None:
    other = {"id": "other", "provider": "hashing", "config": {"dimension": 64}}
    folder = write_project(tmp_path / "shop", PROJECT | {"embedders": [EMBEDDER, other]})
    with serving(folder) as server, server.client() as api:
        reply = api.put("/knowledge-bases/tours", json={**TOURS, "embedder": "other"})
        assert reply.status_code == 201
        api.post("/knowledge-bases/tours/ingest", headers={"Prefer": "wait=20"})
    write_project(folder)
    with serving(folder) as server, server.client() as api:
        assert api.get("/knowledge-bases/tours").json() == reply.json()
        answer = api.post("/knowledge-bases/tours/query", json={"query": "tours"})
        assert problem(answer) == (404, "not_found")
        assert "no embedder 'other'" in answer.json()["detail"]
        assert api.delete("/knowledge-bases/tours").status_code == 204
        assert problem(api.get("/knowledge-bases/tours")) == (404, "not_found")


def source(**settings: Any) -> dict[str, Any]:
    return {"sources": [settings]}


def retrieval(**settings: Any) -> dict[str, Any]:
    return {**TOURS, "retrieval": settings}


def reranker(**settings: Any) -> dict[str, Any]:
    return retrieval(strategy="rerank", rerank=settings)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({**TOURS, "id": "other"}, "/id"),
        ({**TOURS, "description": "{{ .env.HOME }}"}, "/description"),
        ({**TOURS, "nonsense": 1}, "/nonsense"),
        ({**TOURS, "embedder": "unknown"}, "/embedder"),
        ({**TOURS, "sparse": "unknown"}, "/sparse"),
        ({**TOURS, "description": "\0"}, "/description"),
        (source(type="file_glob", path="*"), "/sources/0/type"),
        (source(type="langchain", **{"class": "pytest:main"}), "/sources/0/type"),
        (source(type="langchain", **{"class": "os:system"}), "/sources/0/class"),
        (source(type="cloud_storage", provider="file", bucket="/etc"), "/sources/0/type"),
        (source(type="media_transcript", path="a.vtt"), "/sources/0/path"),
        (
            source(type="url", urls=["http://x.test/"], fetch={"allow": ["x"]}),
            "/sources/0/fetch/allow",
        ),
        (
            source(type="url", urls=["http://x.test/"], fetch={"headers": {}}),
            "/sources/0/fetch/headers",
        ),
        (retrieval(render="notes.txt"), "/retrieval/render"),
        (retrieval(render="{{ .marker }} {{ .content }}</knowledge>"), "/retrieval/render"),
        (reranker(provider="onnx", model_path="/etc/model.onnx"), "/retrieval/rerank/provider"),
        (reranker(**{"class": "pytest:main"}), "/retrieval/rerank"),
        (reranker(class_path="pytest:main"), "/retrieval/rerank"),
        (
            reranker(provider="fastembed", model="a", cache_dir="/tmp/x"),
            "/retrieval/rerank/cache_dir",
        ),
        (reranker(provider="fastembed", model="a", file="a.onnx"), "/retrieval/rerank/file"),
    ],
)
def test_what_needs_the_owners_trust_is_refused(
    api: httpx.Client, body: dict[str, Any], pointer: str
) -> None:
    refused = api.put("/knowledge-bases/new", json=body)
    assert problem(refused) == (422, "invalid_request")
    assert pointer in [error["pointer"] for error in refused.json()["errors"]]


def test_every_setting_is_allowed_or_refused_on_purpose() -> None:
    """Each setting of each built-in kind, at any depth, is in one of the two lists."""
    classes: dict[str, type[Declaration]] = {}

    def walk(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, Declaration):
            for place in REGISTRIES.values():
                if place.base is annotation:
                    for word in place.built_in:
                        walk(place.kind(word).Declaration)
                    return
            if annotation.__name__ not in classes:
                classes[annotation.__name__] = annotation
                for info in annotation.model_fields.values():
                    walk(info.annotation)
        for part in get_args(annotation):
            walk(part)

    walk(KnowledgeBaseDeclaration)
    assert len(classes) > 20
    for name, kind in classes.items():
        fields = set(kind.model_fields)
        allowed = set(ALLOWED.get(name, "").split())
        refused = set(REFUSED.get(name, {}))
        assert allowed | (refused if refused != {"*"} else fields) == fields, name
        assert not allowed & refused, name
    assert ALLOWED.keys() | REFUSED.keys() == classes.keys()


def test_a_reranker_by_its_name_is_possible(api: httpx.Client) -> None:
    """A caller can choose a model that fastembed lists, and how the passages are written."""
    body = reranker(provider="fastembed", model="jinaai/jina-reranker-v1-tiny-en")
    body["retrieval"]["render"] = "xml"
    assert api.put("/knowledge-bases/judged", json=body).status_code == 201


def test_all_mistakes_are_told_at_once(api: httpx.Client) -> None:
    """Settings that are refused here are reported together with those that are not valid at all."""
    body = source(type="file_glob", path="*") | {"nonsense": 1, "retrieval": {"top_k": 51}}
    refused = api.put("/knowledge-bases/new", json=body).json()["errors"]
    pointers = ["/nonsense", "/retrieval/top_k", "/sources/0/type"]
    assert sorted(error["pointer"] for error in refused) == pointers
    body = TOURS | {"description": "{{ .env.HOME }}", "embedder": "unknown"}
    refused = api.put("/knowledge-bases/new", json=body).json()["errors"]
    assert sorted(error["pointer"] for error in refused) == ["/description", "/embedder"]
    body = TOURS | {"embedder": "unknown", "vector_db": "unknown", "nonsense": 1}
    body |= {"retrieval": {"filters": {"$or": [{"a": {"$x": 1}}, {"b": {"$gt": []}}]}}}
    refused = api.put("/knowledge-bases/new", json=body).json()["errors"]
    filters = ["/retrieval/filters/$or/0/a/$x", "/retrieval/filters/$or/1/b/$gt"]
    pointers = ["/embedder", "/nonsense", *filters, "/vector_db"]
    assert sorted(error["pointer"] for error in refused) == pointers


def test_a_whole_number_may_be_written_as_a_decimal(api: httpx.Client) -> None:
    """JSON has one type of number, so serializers write 5 as 5.0."""
    body = TOURS | {"retrieval": {"top_k": 5.0}}
    reply = api.put("/knowledge-bases/whole", json=body)
    assert reply.status_code == 201
    assert reply.json()["knowledge_base"]["retrieval"] == {"top_k": 5}
    refused = api.put("/knowledge-bases/new", json=TOURS | {"retrieval": {"top_k": 5.5}})
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/retrieval/top_k"]
    api.delete("/knowledge-bases/whole")


def test_pages_lead_both_ways(api: httpx.Client) -> None:
    for number in range(5):
        api.put(f"/knowledge-bases/p{number}", json=TOURS)
    everything = [item["id"] for item in api.get("/knowledge-bases").json()["items"]]
    page = api.get("/knowledge-bases", params={"limit": 2})
    seen, pages = [item["id"] for item in page.json()["items"]], [page]
    while page.json()["next"]:
        page = api.get("http://localhost" + page.links["next"]["url"])
        pages.append(page)
        seen += [item["id"] for item in page.json()["items"]]
    assert seen == everything == sorted(everything)
    while page.json()["previous"]:
        page = api.get("http://localhost" + page.links["prev"]["url"])
        pages.pop()
        assert page.json()["items"] == pages[-1].json()["items"]
    assert len(pages) == 1
    assert [item["id"] for item in api.get("/knowledge-bases?q=P3").json()["items"]] == ["p3"]
    assert problem(api.get("/knowledge-bases?cursor=AAAA")) == (400, "invalid_cursor")
    assert problem(api.get("/knowledge-bases?limit=0")) == (422, "invalid_request")
    for number in range(5):
        api.delete(f"/knowledge-bases/p{number}")


def test_one_without_sources_is_filled_by_uploads(api: httpx.Client) -> None:
    """A declaration without `sources` is valid, and its documents are posted."""
    assert api.put("/knowledge-bases/uploads", json={}).status_code == 201
    note = {"id": "note", "text": "The museum closes at six."}
    assert api.post("/knowledge-bases/uploads/documents", json=note).status_code == 201
    answer = api.post("/knowledge-bases/uploads/query", json={"query": "museum"}).json()
    assert [match["text"] for match in answer["matches"]] == ["The museum closes at six."]
    assert api.delete("/knowledge-bases/uploads").status_code == 204
