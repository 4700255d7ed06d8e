"""Retries of requests to a server that is busy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from lorebind.remote.connection import Connection
from lorebind.remote.errors import ServerError
from lorebind_config.errors import RateLimitError
from lorebind_knowledge.resilience import retries as retries_module
from tests.knowledge.web_server import Answer, WebServer

PATH = "/api/v0/x"
JSON = {"Content-Type": "application/json"}
AT = 1_700_000_000


@pytest.fixture
def server(socket_enabled: None) -> Iterator[WebServer]:
    started = WebServer()
    yield started
    started.close()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, which take no time."""
    waits: list[float] = []
    monkeypatch.setattr(retries_module.time, "sleep", waits.append)
    return waits


def busy(status: int, after: str, code: str = "draining", **more: Any) -> Answer:
    document = {"code": code, "detail": "wait", **more}
    headers = {"Retry-After": after, "Date": formatdate(AT)}
    return Answer(json.dumps(document).encode(), JSON | headers, status)


@pytest.mark.parametrize("method", ["send", "events"])
def test_a_busy_server_is_asked_again(server: WebServer, waits: list[float], method: str) -> None:
    """A request waits as long as the server asks for, in seconds or until a date."""
    answer = Answer(b"[1]", JSON) if method == "send" else Answer(b"event: end\ndata: [1]\n\n")
    server.routes[PATH] = [busy(503, "2"), busy(429, formatdate(AT + 30)), busy(503, "0"), answer]
    connection = Connection(server.url(""))
    if method == "send":
        assert connection.get("/x") == [1]
    else:
        with connection.events("GET", "/x", "7") as events:
            assert [(event.name, event.data) for event in events] == [("end", [1])]
        assert server.requests[-1].headers["last-event-id"] == "7"
    connection.close()
    assert waits == [2, 30, 0]


@pytest.mark.parametrize(
    "answer",
    [
        busy(503, "31"),
        busy(503, "soon"),
        busy(500, "1"),
        busy(503, "1", thread_id="t"),
    ],
)
def test_other_answers_are_errors_at_once(
    server: WebServer, waits: list[float], answer: Answer
) -> None:
    """A long wait, another status and a run that has begun are not retried."""
    server.routes[PATH] = answer
    connection = Connection(server.url(""))
    with pytest.raises(ServerError, match="wait"):
        connection.get("/x")
    connection.close()
    assert (len(server.requests), waits) == (1, [])


def test_attempts_are_bounded(server: WebServer, waits: list[float]) -> None:
    """The fourth refusal is an error, which tells when a query is allowed again."""
    server.routes[PATH] = busy(429, "7", "rate_limited")
    connection = Connection(server.url(""))
    with pytest.raises(RateLimitError, match="wait") as caught:
        connection.get("/x")
    connection.close()
    assert caught.value.retry_after == 7
    assert (len(server.requests), waits) == (4, [7, 7, 7])
