"""Answers of chat models over HTTP: whole, streamed, stopped, refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind import Project

from .conftest import PROJECT, problem, serving, write_project

EVENTS = {"Accept": "text/event-stream"}
QUESTION = {"question": "When can I return goods?"}
TALKING = Path(__file__).with_name("talking.py")

DOWN = {
    "id": "down",
    "provider": "openai",
    "model": "m",
    "api_key": "{{ .env.KEY }}",
    "config": {"base_url": "http://127.0.0.1:9/v1", "max_retries": 0},
}
"""A model whose server does not answer."""


def declared(says: str = "", seconds: float = 0.0, **server: Any) -> dict[str, Any]:
    model = {"id": "default", "provider": "langchain", "class": "talking:Talking"}
    config = {"seconds": seconds} | ({"says": says} if says else {})
    kbs = [{**kb, "ingest": "on_start"} for kb in PROJECT["knowledge_bases"]]
    tours = {"type": "inline", "documents": [{"id": "tours", "text": "Tours start at nine."}]}
    agents = [
        {"id": "guide", "instructions": "Guide.", "knowledge": [{"id": "tours"}]},
        {"id": "silent", "instructions": "Say.", "knowledge": []},
    ]
    return {
        **PROJECT,
        "models": [{**model, "config": config}],
        "knowledge_bases": [*kbs, {"id": "tours", "ingest": "on_start", "sources": [tours]}],
        "knowledge": [{"id": "handbook"}],
        "agents": agents,
        "server": server,
    }


def project(folder: Path, **settings: Any) -> Path:
    write_project(folder, declared(**settings))
    (folder / "talking.py").write_text(TALKING.read_text())
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def api(folder: Path) -> Iterator[httpx.Client]:
    with serving(folder) as server, server.client() as client:
        yield client


def followed(stream: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in stream.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            yield name, json.loads(value)


def streamed(api: httpx.Client, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    with api.stream("POST", "/answers", json=body, headers=EVENTS) as stream:
        assert stream.status_code == 200, stream.read()
        assert stream.headers["content-type"].startswith("text/event-stream")
        return list(followed(stream))


def test_an_answer_has_what_generate_gives(api: httpx.Client, folder: Path) -> None:
    answer = api.post("/answers", json=QUESTION)
    assert answer.status_code == 200
    data = answer.json()
    with Project.load(folder) as mine:
        expected = mine.generate(QUESTION["question"])
    assert data["text"] == expected.text == "Within 30 days [1]. See also [7]."
    assert (data["verdict"], data["unknown_markers"], data["dropped"]) == ("hit", ["[7]"], 0)
    (citation,) = data["citations"]
    assert citation["uri"] == "inline:returns"
    assert (citation["marker"], citation["metadata"]["line_start"]) == ("[1]", 1)
    assert 0 < citation["score"] <= 1
    assert data["usage"]["prompt_tokens"] == expected.usage["prompt_tokens"]
    assert list(data["results"]) == ["handbook"]
    assert data["results"]["handbook"]["matches"][0]["text"].startswith("You can return goods")


def test_events_of_an_answer(api: httpx.Client) -> None:
    """The passages come first, each citation right after its marker, and last the whole answer."""
    events = streamed(api, QUESTION)
    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("retrieval", "end")
    assert list(events[0][1]["results"]) == ["handbook"]
    text = "".join(data["text"] for name, data in events if name == "text")
    assert text == events[-1][1]["text"] == "Within 30 days [1]. See also [7]."
    (at,) = [number for number, name in enumerate(names) if name == "citation"]
    assert events[at - 1] == ("text", {"text": " [1]."})
    assert events[at][1] == events[-1][1]["citations"][0]


@pytest.mark.parametrize(
    ("place", "searched"),
    [
        ({}, ["handbook"]),
        ({"knowledge_bases": ["tours"]}, ["tours"]),
        ({"knowledge_bases": ["tours", "handbook"]}, ["tours", "handbook"]),
        ({"agent": "guide"}, ["handbook", "tours"]),
        ({"agent": "silent"}, []),
    ],
)
def test_the_place_decides_what_is_searched(
    api: httpx.Client, place: dict[str, Any], searched: list[str]
) -> None:
    answer = api.post("/answers", json=QUESTION | place).json()
    assert list(answer["results"]) == searched
    assert (answer["verdict"] == "none") == (not searched)


def test_a_conversation_and_settings(api: httpx.Client) -> None:
    """The history helps to search for a question that follows it."""
    history = [
        {"role": "user", "content": "How long does shipping take?"},
        {"role": "assistant", "content": "Five days."},
    ]
    body = {"question": "And that?", "history": history, "top_k": 1, "strategy": "lexical"}
    answer = api.post("/answers", json=body).json()
    (match,) = answer["results"]["handbook"]["matches"]
    assert match["text"].startswith("Shipping takes")
    small = api.post("/answers", json=QUESTION | {"max_tokens": 5}).json()
    assert small["dropped"] > 0


@pytest.mark.parametrize(
    ("body", "status", "code", "pointer"),
    [
        ({}, 422, "invalid_request", "/question"),
        ({"question": "  "}, 422, "invalid_request", "/question"),
        (QUESTION | {"history": [{"role": "boss", "content": ""}]}, 422, "invalid_request", None),
        (QUESTION | {"top_k": 0}, 422, "invalid_request", "/top_k"),
        (QUESTION | {"model": "gpt"}, 422, "invalid_request", "/model"),
        (QUESTION | {"agent": "nobody"}, 404, "not_found", None),
        (QUESTION | {"knowledge_bases": ["nothing"]}, 404, "not_found", None),
        (QUESTION | {"task": "a"}, 422, "invalid_request", None),
    ],
)
@pytest.mark.parametrize("headers", [{}, EVENTS], ids=["json", "events"])
def test_refusals(
    api: httpx.Client,
    body: dict[str, Any],
    status: int,
    code: str,
    pointer: str | None,
    headers: dict[str, str],
) -> None:
    """Mistakes are told in the status, also to clients that prefer events."""
    refused = api.post("/answers", json=body, headers=headers)
    assert problem(refused) == (status, code)
    if pointer:
        assert refused.json()["errors"][0]["pointer"] == pointer


def test_without_bindings_all_are_searched(tmp_path: Path) -> None:
    whole = declared()
    del whole["knowledge"]
    write_project(tmp_path, whole)
    (tmp_path / "talking.py").write_text(TALKING.read_text())
    with serving(tmp_path) as server, server.client() as api:
        assert list(api.post("/answers", json=QUESTION).json()["results"]) == ["handbook", "tours"]


@pytest.mark.parametrize("headers", [{}, EVENTS], ids=["json", "events"])
def test_a_client_that_leaves_stops_the_model(tmp_path: Path, headers: dict[str, str]) -> None:
    folder = project(tmp_path, says="word " * 1000, seconds=0.05)
    with serving(folder) as server:
        with suppress(httpx.ReadTimeout), server.client() as api:
            options = {"json": QUESTION, "headers": headers, "timeout": 20 if headers else 3}
            with api.stream("POST", "/answers", **options) as stream:
                next(name for name, _ in followed(stream) if name == "text")
        deadline = time.monotonic() + 60
        while not (folder / "stopped").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_an_answer_has_a_time_limit(tmp_path: Path) -> None:
    """`answer_seconds` ends whole and streamed answers, and the model with them."""
    folder = project(tmp_path, says="word " * 1000, seconds=0.05, answer_seconds=0.6)
    with serving(folder) as server, server.client() as api:
        late = api.post("/answers", json=QUESTION)
        assert problem(late) == (504, "timeout")
        assert "0.6 s" in late.json()["detail"]
        events = streamed(api, QUESTION)
        assert events[0][0] == "retrieval"
        assert events[-1][0] == "error"
        assert events[-1][1]["code"] == "timeout"


def test_a_model_that_fails(tmp_path: Path) -> None:
    whole = declared() | {"models": [DOWN]}
    with serving(write_project(tmp_path, whole), KEY="k") as server, server.client() as api:
        assert problem(api.post("/answers", json=QUESTION)) == (502, "model_failed")
        events = streamed(api, QUESTION)
        assert [name for name, _ in events] == ["retrieval", "error"]
        assert events[-1][1]["code"] == "model_failed"


def test_many_streams_at_once(tmp_path: Path) -> None:
    """64 streams are each whole and in order."""
    words = " ".join(f"w{number}" for number in range(40))
    folder = project(tmp_path, says=words, seconds=0.01)
    with serving(folder) as server, server.client() as api, ThreadPoolExecutor(64) as pool:
        all_events = list(pool.map(lambda _: streamed(api, QUESTION), range(64)))
    for events in all_events:
        assert "".join(data["text"] for name, data in events if name == "text") == words


def test_a_dry_run_shows_the_prompt_and_calls_no_model(api: httpx.Client) -> None:
    body = {**QUESTION, "dry_run": True, "max_tokens": 1, "history": []}
    prompt = api.post("/answers", json=body).json()
    assert prompt["messages"][-1]["role"] == "human"
    assert QUESTION["question"] in prompt["messages"][-1]["content"]
    assert prompt["tokens"] > 5
    assert {drop["reason"] for drop in prompt["dropped"]} == {"does not fit into 1 tokens"}
    assert {drop["uri"] for drop in prompt["dropped"]} == {"inline:returns", "inline:shipping"}
