"""`/workflows` and `/bindings` on a real server."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.requests import Request

from lorebind.server.event_streams import prefers_events

from .conftest import Process, problem, serving
from .desk import write_desk
from .test_aborted_requests import request

EVENTS = {"Accept": "text/event-stream"}
QUESTION = {"input": {"question": "Within how many days can I return goods?"}}
REFUND = {"input": {"ticket": "refund"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Process]:
    with serving(folder) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: Process) -> Iterator[httpx.Client]:
    with server.client() as api:
        yield api


def test_workflows_are_listed_with_their_inputs(api: httpx.Client) -> None:
    page = api.get("/workflows", params={"limit": 1})
    (answer,) = page.json()["items"]
    assert (answer["id"], answer["description"]) == ("answer", "Answers from the handbook.")
    assert answer["inputs"]["question"] == {"type": "string", "required": True}
    assert answer["inputs"]["count"] == {"type": "integer", "required": False}
    following = api.get("http://localhost" + page.links["next"]["url"])
    assert [item["id"] for item in following.json()["items"]] == ["broken"]
    again = api.get(
        "/workflows", params={"limit": 1}, headers={"If-None-Match": page.headers["etag"]}
    )
    assert again.status_code == 304


def test_a_run_that_completes_gives_its_result(api: httpx.Client) -> None:
    ran = api.post("/workflows/answer/runs", json={**QUESTION, "thread_id": "done"})
    assert ran.status_code == 200
    result = ran.json()
    assert (result["status"], result["thread_id"]) == ("completed", "done")
    assert "within 30 days" in result["output"]
    cited = result["citations"][0]
    assert (cited["uri"], cited["label"]) == ("inline:returns", "inline:returns, line 1")
    assert result["tasks"]["say"]["verdict"] == "hit"
    thread = api.get("/workflows/answer/threads/done").json()
    assert (thread["status"], thread["output"]) == ("completed", result["output"])
    assert [step["path"] for step in thread["history"]] == ["say"]
    assert api.post("/workflows/answer/runs", json={**QUESTION, "thread_id": "done"}).is_success
    assert len(api.get("/workflows/answer/threads/done").json()["history"]) == 2


def test_a_workflow_is_shown_with_its_graph(api: httpx.Client) -> None:
    reply = api.get("/workflows/triage")
    assert (reply.json()["id"], reply.json()["inputs"]) == ("triage", ["ticket"])
    flow = reply.json()["flow"]
    assert flow["tasks"][0]["id"] == flow["entry"]
    tag = {"If-None-Match": reply.headers["etag"]}
    assert api.get("/workflows/triage", headers=tag).status_code == 304


@pytest.mark.parametrize(
    ("workflow", "body", "pointer"),
    [
        ("answer", {"input": {}}, "/input/question"),
        ("answer", {"input": {"question": 1}}, "/input/question"),
        ("answer", {"input": {"question": "a", "a/b": 1}}, "/input/a~1b"),
        ("answer", {"input": {"question": "\0"}}, "/input/question"),
        ("answer", {**QUESTION, "interrupt_before": ["say", "sya"]}, "/interrupt_before/1"),
        ("answer", {**QUESTION, "thread_id": " "}, "/thread_id"),
        ("answer", {**QUESTION, "inputs": {}}, "/inputs"),
        ("answer", {"input": []}, "/input"),
    ],
)
@pytest.mark.parametrize("headers", [{}, EVENTS])
def test_what_is_wrong_in_a_request_is_pointed_at(
    api: httpx.Client, workflow: str, body: dict[str, Any], pointer: str, headers: dict[str, str]
) -> None:
    """A stream is refused in the same way, before it begins."""
    refused = api.post(f"/workflows/{workflow}/runs", json=body, headers=headers)
    assert problem(refused) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


def test_all_mistakes_are_told_at_once(api: httpx.Client) -> None:
    """Inputs, answers and tasks are checked together, so that one correction is enough."""
    body = {"input": {"count": "x", "more": 1}, "interrupt_before": ["no"]}
    refused = api.post("/workflows/answer/runs", json=body).json()["errors"]
    inputs = ["/input/count", "/input/more", "/input/question"]
    assert sorted(error["pointer"] for error in refused) == [*inputs, "/interrupt_before/0"]
    body = {"input": body["input"]}
    refused = api.post("/workflows/answer/runs", json=body).json()["errors"]
    assert sorted(error["pointer"] for error in refused) == inputs
    api.post("/workflows/triage/runs", json={**REFUND, "thread_id": "several"})
    answers = {"approve": {"ok": 1}, "aprove": 1}
    place = "/workflows/triage/threads/several/resume"
    refused = api.post(place, json={"answers": answers}).json()["errors"]
    assert [error["pointer"] for error in refused] == ["/answers/approve", "/answers/aprove"]


def test_a_question_is_asked_and_answered(api: httpx.Client) -> None:
    reply = api.post("/workflows/triage/runs", json={**REFUND, "thread_id": "t 1"})
    assert reply.status_code == 202
    assert reply.headers["location"] == "/api/v0/workflows/triage/threads/t%201"
    (question,) = reply.json()["waiting"]
    assert (question["task"], question["prompt"]) == ("approve", "Pay? refund")

    place = "http://localhost" + reply.headers["location"]
    thread = api.get(place)
    assert (thread.json()["status"], thread.json()["waiting"]) == ("waiting", [question])
    unchanged = api.get(place, headers={"If-None-Match": thread.headers["etag"]})
    assert unchanged.status_code == 304
    other = api.post("/workflows/triage/runs", json={**REFUND, "thread_id": "t 1"})
    assert problem(other) == (409, "thread_refused")
    resume = "/api/v0/workflows/triage/threads/t%201/resume"
    assert other.json()["detail"].endswith(f"resume it: POST {resume}")

    unanswered = api.post(f"{place}/resume")
    assert (unanswered.status_code, unanswered.json()["waiting"]) == (202, [question])
    wrong = api.post(f"{place}/resume", json={"answers": {"approve": {"ok": 1}}})
    assert problem(wrong) == (422, "invalid_request")
    assert wrong.json()["errors"][0]["pointer"] == "/answers/approve"
    unknown = api.post(f"{place}/resume", json={"answers": {"aprove": 1}})
    assert unknown.json()["errors"][0]["pointer"] == "/answers/aprove"

    answered = api.post(f"{place}/resume", json={"answers": {"approve": {"ok": True}}})
    assert answered.status_code == 200
    assert answered.json()["output"] == {"answers": None, "paid": {"ok": True}}
    assert api.post(f"{place}/resume").json() == answered.json()
    other = api.post(f"{place}/resume", json={"answers": {"approve": {"ok": False}}})
    assert problem(other) == (409, "thread_refused")


@pytest.mark.parametrize("thread", ["customer/42", "/a//b/", "c/resume", "a/threads/b", "50%2F"])
@pytest.mark.parametrize("safe", ["", "/"])
def test_a_thread_id_may_hold_slashes(api: httpx.Client, thread: str, safe: str) -> None:
    """A path may contain slashes of ids literally or percent-encoded."""
    tenant = {"X-Tenant-ID": f"slashes-{len(safe)}"}
    body = {**REFUND, "thread_id": thread}
    reply = api.post("/workflows/triage/runs", json=body, headers=tenant)
    place = f"/workflows/triage/threads/{quote(thread, safe='')}"
    assert (reply.status_code, reply.headers["location"]) == (202, f"/api/v0{place}")
    place = f"/workflows/triage/threads/{quote(thread, safe=safe)}"
    assert api.get(place, headers=tenant).json()["thread_id"] == thread
    again = api.post(f"{place}/replay", json={"step": 0}, headers=tenant)
    assert again.status_code == 202
    answers = {"answers": {"approve": {"ok": True}}}
    assert api.post(f"{place}/resume", json=answers, headers=tenant).status_code == 200
    refused = api.put(place, headers=tenant)
    assert problem(refused) == (405, "method_not_allowed")
    is_route = thread.endswith("/resume")
    assert refused.headers["allow"] == ("POST" if is_route else "GET, HEAD")


def test_a_run_is_paused_before_a_task_and_waits_after_it(api: httpx.Client) -> None:
    body = {**REFUND, "interrupt_before": ["kind"]}
    paused = api.post("/workflows/triage/runs", json=body)
    assert (paused.status_code, paused.json()["paused"]) == (202, ["kind"])
    place = "http://localhost" + paused.headers["location"]
    assert api.get(place).json()["status"] == "paused"
    assert api.post(f"{place}/resume").json()["status"] == "waiting"


def test_a_thread_is_replayed_as_another(api: httpx.Client) -> None:
    api.post("/workflows/triage/runs", json={**REFUND, "thread_id": "first"})
    place = "/workflows/triage/threads/first/replay"
    again = api.post(place, json={"step": 1.0, "thread_id": "second"})
    assert again.status_code == 202
    assert again.headers["location"] == "/api/v0/workflows/triage/threads/second"
    assert api.get("/workflows/triage/threads/second").json()["status"] == "waiting"
    for taken in ("first", "second"):
        refused = api.post(place, json={"step": 1, "thread_id": taken})
        assert problem(refused) == (409, "thread_refused")
    far = api.post(place, json={"step": 9})
    assert problem(far) == (422, "invalid_request")
    assert far.json()["errors"][0]["pointer"] == "/step"


def test_a_run_is_followed_event_by_event(api: httpx.Client) -> None:
    with api.stream("POST", "/workflows/answer/runs", json=QUESTION, headers=EVENTS) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        events = list(events_of(stream))
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    names = [name for _, name, _ in events]
    assert (names[0], names[-1]) == ("run_start", "run_end")
    assert {"task_start", "retrieval", "model_chunk", "task_end"} <= set(names)
    assert all((data["type"], data["seq"]) == (name, number) for number, name, data in events)
    end = events[-1][2]["data"]
    assert (end["status"], "within 30 days" in end["result"]["output"]) == ("completed", True)


def test_a_run_can_be_resumed_as_soon_as_its_stream_ends(api: httpx.Client) -> None:
    """`run_end` is sent when the thread is free, with the open questions."""
    for number in range(5):
        thread = f"s{number}"
        body = {**REFUND, "thread_id": thread}
        with api.stream("POST", "/workflows/triage/runs", json=body, headers=EVENTS) as stream:
            events = list(events_of(stream))
        assert events[-1][2]["data"]["result"]["waiting"][0]["task"] == "approve"
        with api.stream(
            "POST",
            f"/workflows/triage/threads/{thread}/resume",
            json={"answers": {"approve": {"ok": False}}},
            headers=EVENTS,
        ) as stream:
            events = list(events_of(stream))
        assert events[-1][2]["data"]["result"]["output"]["paid"] == {"ok": False}


def test_a_run_that_fails_in_its_stream_ends_with_the_problem(api: httpx.Client) -> None:
    with api.stream("POST", "/workflows/broken/runs", headers=EVENTS) as stream:
        assert stream.status_code == 200
        events = list(events_of(stream))
    assert [name for _, name, _ in events][-2:] == ["run_end", "error"]
    document = events[-1][2]
    assert (document["status"], document["code"], document["task"]) == (502, "task_failed", "break")
    thread = api.get(f"/workflows/broken/threads/{document['thread_id']}").json()
    assert thread["status"] == "failed"
    assert "no ticket" in thread["error"]


@pytest.mark.parametrize(
    ("workflow", "expected", "task"),
    [
        ("broken", (502, "task_failed"), "break"),
        ("unready", (409, "not_ingested"), "say"),
        ("mute", (502, "model_failed"), "say"),
    ],
)
def test_a_failure_has_the_code_of_what_failed(
    api: httpx.Client, workflow: str, expected: tuple[int, str], task: str
) -> None:
    failed = api.post(f"/workflows/{workflow}/runs")
    assert problem(failed) == expected
    document = failed.json()
    assert (document["task"], document["path"]) == (task, task)
    place = f"/api/v0/workflows/{workflow}/threads/{document['thread_id']}/resume"
    assert document["detail"].endswith(f"resume with: POST {place}")
    assert problem(api.post("http://localhost" + place)) == expected


def test_what_is_not_there_is_not_found(api: httpx.Client) -> None:
    for headers in ({}, EVENTS):
        assert problem(api.post("/workflows/no/runs", headers=headers)) == (404, "not_found")
        resumed = api.post("/workflows/triage/threads/no/resume", headers=headers)
        assert problem(resumed) == (404, "not_found")
    for path in ("no", "no/threads", "triage/threads/no", "no/threads/no"):
        assert problem(api.get(f"/workflows/{path}")) == (404, "not_found")
    assert problem(api.get("/bindings?workflow=no")) == (404, "not_found")


@pytest.mark.parametrize("depth", [300, *range(930, 970, 4), 90_000])
def test_what_is_nested_too_deeply_is_refused(api: httpx.Client, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    headers = {"Content-Type": "application/json"}
    body = f'{{"input": {{"ticket": {nested}}}}}'
    assert api.post("/workflows/triage/runs", content=body, headers=headers).status_code in (
        400,
        422,
    )


def test_a_function_may_give_half_a_character(api: httpx.Client) -> None:
    ran = api.post("/workflows/slow/runs", json={"input": {"seconds": 0, "name": "half"}})
    assert (ran.status_code, ran.json()["output"]) == (200, "\ud800")


def test_threads_are_listed_in_pages_that_lead_both_ways(api: httpx.Client) -> None:
    headers = {"X-Tenant-ID": "pages"}
    for number in range(5):
        body = {**REFUND, "thread_id": f"p{number}"}
        api.post("/workflows/triage/runs", json=body, headers=headers)
    answers = {"answers": {"approve": {"ok": True}}}
    api.post("/workflows/triage/threads/p2/resume", json=answers, headers=headers)
    page = api.get("/workflows/triage/threads?limit=2", headers=headers)
    pages = [page.json()["items"]]
    while page.json()["next"]:
        page = api.get("http://localhost" + page.links["next"]["url"], headers=headers)
        pages.append(page.json()["items"])
    seen = [item["thread_id"] for items in pages for item in items]
    assert seen == ["p2", "p4", "p3", "p1", "p0"]
    assert pages[0][0]["status"] == "completed"
    assert pages[0][1]["waiting"][0]["task"] == "approve"
    while page.json()["previous"]:
        page = api.get("http://localhost" + page.links["prev"]["url"], headers=headers)
        pages.pop()
        assert page.json()["items"] == pages[-1]
    assert len(pages) == 1


def test_threads_belong_to_their_tenant(api: httpx.Client) -> None:
    mine, other = {"X-Tenant-ID": "mine"}, {"X-Tenant-ID": "other"}
    body = {**REFUND, "thread_id": "t"}
    assert api.post("/workflows/triage/runs", json=body, headers=mine).status_code == 202
    place = "/workflows/triage/threads/t"
    assert api.get(place, headers=mine).status_code == 200
    assert problem(api.get(place, headers=other)) == (404, "not_found")
    assert problem(api.post(f"{place}/resume", headers=other)) == (404, "not_found")
    replayed = api.post(f"{place}/replay", json={"step": 0}, headers=other)
    assert problem(replayed) == (404, "not_found")
    assert api.get("/workflows/triage/threads", headers=other).json()["items"] == []
    with api.stream(
        "POST", "/workflows/triage/runs", json=body, headers={**other, **EVENTS}
    ) as stream:
        assert list(events_of(stream))[-1][2]["data"]["status"] == "waiting"
    assert len(api.get("/workflows/triage/threads", headers=other).json()["items"]) == 1


def test_bindings_are_explained(api: httpx.Client) -> None:
    (bound,) = api.get("/bindings", params={"workflow": "answer", "task": "say"}).json()["items"]
    assert (bound["id"], bound["settings"]["strategy"]) == ("handbook", "hybrid")
    assert bound["provenance"]["top_k"]["scope"] == "default"
    of_project = api.get("/bindings").json()["items"]
    assert [bound["id"] for bound in of_project] == ["handbook", "empty"], "it binds none, so all"
    assert problem(api.get("/bindings?task=say")) == (422, "invalid_request")


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_a_client_that_goes_away_cancels_its_run(
    server: Process, api: httpx.Client, folder: Path, accept: str
) -> None:
    """Finished tasks are kept, and do not run again when the thread is resumed."""
    name = f"gone-{len(accept)}"
    body = {"input": {"seconds": 60, "name": name}, "thread_id": name}
    place = f"/workflows/slow/threads/{name}"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(server.socket))
        client.sendall(request("/workflows/slow/runs", body, accept=accept))
        wait_for(api, place, "running")
        wait_until_noted(folder, name)
    wait_for(api, place, "interrupted")
    (folder / "awake").touch()
    resumed = api.post(f"{place}/resume")
    (folder / "awake").unlink()
    assert (resumed.status_code, resumed.json()["output"]) == (200, "\ud800")
    assert noted(folder, name) == 1


def test_nothing_blocks_while_fifty_runs_are_followed(api: httpx.Client) -> None:
    def follow(number: int) -> str:
        body = {"input": {"seconds": 2, "name": f"many-{number}"}}
        with api.stream("POST", "/workflows/slow/runs", json=body, headers=EVENTS) as stream:
            return str(list(events_of(stream))[-1][2]["data"]["status"])

    began = time.monotonic()
    with ThreadPoolExecutor(50) as threads:
        runs = [threads.submit(follow, number) for number in range(50)]
        time.sleep(0.5)
        answers = 0
        while not any(run.done() for run in runs):
            assert api.get("/workflows").status_code == 200
            answers += 1
        assert answers > 1  # a blocked server would answer once, after a run
        assert {run.result() for run in runs} == {"completed"}
    assert time.monotonic() - began < 60  # sequential runs would take 100 s


def test_a_run_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    folder = write_desk(tmp_path / "killed")
    body = {"input": {"seconds": 2, "name": "killed"}, "thread_id": "k"}
    with serving(folder) as server, server.client() as api:
        with api.stream("POST", "/workflows/slow/runs", json=body, headers=EVENTS) as stream:
            events = events_of(stream)
            while next(events)[2]["task"] != "wait":
                pass
            server.process.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                list(events)
        server.process.communicate()
    with serving(folder) as server, server.client() as api:
        assert api.get("/workflows/slow/threads/k").json()["status"] == "interrupted"
        assert api.post("/workflows/slow/threads/k/resume").status_code == 200
    assert noted(folder, "killed") == 1


def test_a_server_that_is_told_to_stop_lets_runs_end(tmp_path: Path) -> None:
    body = {"input": {"seconds": 2, "name": "drained"}}
    with serving(write_desk(tmp_path)) as server, server.client() as api:
        with api.stream("POST", "/workflows/slow/runs", json=body, headers=EVENTS) as stream:
            events = []
            for event in events_of(stream):
                events.append(event)
                if event[1] == "run_start":
                    server.process.terminate()
        assert events[-1][2]["data"]["status"] == "completed"
        server.process.communicate(timeout=60)
        assert server.process.returncode == 0


@pytest.mark.parametrize(
    ("accept", "events"),
    [
        ([], False),
        (["*/*"], False),
        (["application/json"], False),
        (["text/event-stream"], True),
        (["TEXT/Event-Stream; q=0.5"], True),
        (["text/event-stream;q=0"], False),
        (["text/event-stream, */*"], True),
        (["text/event-stream;q=0.5, */*"], False),
        (["text/event-stream, application/json"], True),
        (["application/json, text/event-stream"], False),
        (["application/json;q=0.5", "text/event-stream"], True),
        (["text/event-stream;q=x, application/json;q=0.1"], True),
    ],
)
def test_the_caller_chooses_between_json_and_events(accept: list[str], events: bool) -> None:
    headers = [(b"accept", value.encode()) for value in accept]
    assert prefers_events(Request({"type": "http", "headers": headers})) is events


def events_of(stream: httpx.Response) -> Iterator[tuple[int | None, str, dict[str, Any]]]:
    """Return the number, the name and the data of each event."""
    fields: dict[str, str] = {}
    for line in stream.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "event" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield number, fields["event"], json.loads(fields["data"])
            fields = {}


def wait_for(api: httpx.Client, place: str, status: str) -> None:
    deadline = time.monotonic() + 60
    while (state := api.get(place).json()["status"]) != status:
        assert time.monotonic() < deadline, state
        time.sleep(0.05)


def wait_until_noted(folder: Path, name: str, times: int = 1) -> None:
    """Wait until the task `first` has run this often."""
    deadline = time.monotonic() + 60
    while not (folder / "noted").exists() or noted(folder, name) < times:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def noted(folder: Path, name: str) -> int:
    """Return how often the task `first` ran."""
    return (folder / "noted").read_text().splitlines().count(name)
