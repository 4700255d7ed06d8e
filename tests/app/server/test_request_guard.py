"""The checks before a request reaches a route, and the headers of every answer."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import BrokenResourceError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lorebind.server.middleware.callers import Callers
from lorebind.server.middleware.guard import MOST_BYTES, RequestGuard
from lorebind.server.middleware.hosts import Hosts
from lorebind.server.state.tokens import Tokens
from lorebind_knowledge.plumbing.bridge import call

from .conftest import Process
from .in_process import Served, problem, served

OPEN = {"/", "/docs", "/healthz", "/readyz"}
TOURS = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Tours leave at 9."}]}]}


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


def operations(server: Served) -> list[tuple[str, str]]:
    """Yield every method of every path."""
    paths = server.app._app.openapi()["paths"]  # type: ignore[attr-defined]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def filled(path: str) -> str:
    """Fill the parameters of a path, from the root of the server."""
    return "http://localhost" + re.sub(r"\{\w+\}", "handbook", path)


# Tokens and rights


async def test_without_tokens_a_local_caller_may_do_everything(here: Served) -> None:
    """The first token closes the server to callers without one, even after it is revoked."""
    client = here.client()
    assert (await client.put("/knowledge-bases/tours", json=TOURS)).status_code == 201
    text = here.token("first")
    await asyncio.sleep(0.6)
    assert problem(await client.get("/knowledge-bases")) == (401, "unauthenticated")
    assert (await here.client(text).get("/knowledge-bases")).status_code == 200
    here.server.tokens.revoke("first")
    await asyncio.sleep(0.6)
    for caller in (client, here.client(text)):
        assert problem(await caller.get("/knowledge-bases")) == (401, "unauthenticated")


async def test_every_route_but_the_open_ones_wants_a_token(here: Served) -> None:
    here.token("one")
    client = here.client()
    for method, path in [*operations(here), ("GET", "/nothing"), ("OPTIONS", "/api/v0/nothing")]:
        answer = await client.request(method, filled(path))
        if path in OPEN:
            assert answer.status_code == (307 if path == "/" else 200), path
        else:
            assert problem(answer) == (401, "unauthenticated"), (method, path)
            assert answer.headers["www-authenticate"] == 'Bearer realm="lorebind"'


async def test_a_page_says_how_to_log_in(here: Served) -> None:
    """It needs no token, holds nothing of the project, and loads nothing from any host."""
    here.token("one")
    page = await here.client().get("http://localhost/docs")
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src ")
    for _, route in operations(here):
        assert f"<code>{route}</code>" in page.text
    assert "Authorization: Bearer" in page.text
    assert "docs</code>, page <code>how-to/server.md" in page.text
    assert not re.search(r"src=|@import|://|shop|handbook", page.text)


async def test_without_the_playground_the_root_shows_the_routes(tmp_path: Path) -> None:
    async with served(tmp_path, {"server": {"playground": False}}) as here:
        pages = [await here.client().get(f"http://localhost{path}") for path in ("/", "/docs")]
        assert pages[0].text == pages[1].text
        assert problem(await here.client().get("http://localhost/playground")) == (404, "not_found")


async def test_a_token_must_be_the_one(here: Served) -> None:
    text = here.token("one", expires_in_days=1)
    expired = here.token("old", expires_in_days=1e-8)
    assert (await here.client(text).get("/knowledge-bases")).status_code == 200
    lower = {"Authorization": f"bearer  {text} "}
    assert (await here.client(**lower).get("/knowledge-bases")).status_code == 200
    prefix, token_id, secret = text.split("_", 2)
    wrong = [
        *(expired, "", "x", f"{text}x", text[:-1], f"{prefix}_{token_id}_", f"{prefix}_{token_id}"),
        *(f"other_{token_id}_{secret}", f"{prefix}__{secret}", f"{prefix}_{'0' * 12}_{secret}"),
    ]
    sent = [f"Bearer {bad}" for bad in wrong] + [text, f"Basic {text}", f"Bearer{text}", "Bearer"]
    for value in sent:
        answer = await here.client(Authorization=value).get("/knowledge-bases")
        assert problem(answer) == (401, "unauthenticated"), value
        challenge = answer.headers["www-authenticate"]
        assert challenge == 'Bearer realm="lorebind", error="invalid_token"'
        assert secret not in answer.text
    twice = [("Authorization", f"Bearer {text}")] * 2
    assert (await here.client().get("/knowledge-bases", headers=twice)).status_code == 401
    latin = [(b"Authorization", f"Bearer {text}\xe9".encode("latin-1"))]
    assert (await here.client().get("/knowledge-bases", headers=latin)).status_code == 401


async def test_rights_are_needed(here: Served) -> None:
    """Each level of rights includes the ones before it; changes need more than `read`."""
    reader, writer = (here.client(here.token(rights, rights)) for rights in ("read", "write"))
    for method, path in operations(here):
        answer = await reader.request(method, filled(path))
        changes_nothing = method == "GET" or path.endswith(
            ("query", "why", "answers", "completions")
        )
        if changes_nothing and not path.endswith(("doctor", "workers")):
            assert answer.status_code not in (401, 403), (method, path)
        else:
            assert problem(answer) == (403, "forbidden"), (method, path)
    assert (await writer.put("/knowledge-bases/tours", json=TOURS)).status_code == 201
    assert (await writer.get("/knowledge-bases/tours")).status_code == 200
    assert (await here.client(here.token("a")).delete("/knowledge-bases/tours")).status_code == 204


# Tenants


async def test_a_token_names_its_tenants(here: Served) -> None:
    acme, both = here.token("one", "admin", "acme"), here.token("two", "admin", "acme", "müller")
    default = here.token("default")
    assert (await here.client(acme).put("/knowledge-bases/tours", json=TOURS)).status_code == 201

    async def tours(token: str, *tenants: str) -> httpx.Response:
        sent = [(b"X-Tenant-ID", tenant.encode()) for tenant in tenants]
        return await here.client(token).get("/knowledge-bases/tours", headers=sent)

    assert (await tours(acme)).status_code == 200
    assert (await tours(acme, "acme")).status_code == 200
    assert (await tours(both, "acme")).status_code == 200
    assert problem(await tours(both, "müller")) == (404, "not_found")
    assert problem(await tours(both)) == (400, "tenant_required")
    assert problem(await tours(acme, "müller")) == (403, "tenant_forbidden")
    assert problem(await tours(default)) == (404, "not_found")
    assert problem(await tours(default, "acme")) == (403, "tenant_forbidden")
    for wrong in (["acme", "acme"], [""], ["x" * 201], ["a\tb"]):
        assert problem(await tours(both, *wrong)) == (400, "invalid_header")
    not_utf8 = [(b"X-Tenant-ID", "müller".encode("latin-1"))]
    answer = await here.client(both).get("/knowledge-bases", headers=not_utf8)
    assert problem(answer) == (400, "invalid_header")


# Hosts


@pytest.mark.parametrize(
    ("host", "origin", "code"),
    [
        ("localhost", None, None),
        ("LOCALHOST:8642", None, None),
        ("127.0.0.1:1", None, None),
        ("[::1]:8642", None, None),
        ("[::1]", "http://[::1]", None),
        ("Docs.Example", "https://docs.example", None),
        ("localhost:8642", "http://localhost:8642", None),
        ("evil.example", None, "host_refused"),
        ("evil.example:8642", "http://evil.example:8642", "host_refused"),
        ("localhost.evil.example", None, "host_refused"),
        ("evil@localhost", None, "host_refused"),
        ("localhost/evil", None, "host_refused"),
        ("localhost:8642:1", None, "host_refused"),
        ("[::1", None, "host_refused"),
        ("", None, "host_refused"),
        ("localhost:8642", "http://localhost:3000", "origin_refused"),
        ("localhost:8642", "https://evil.example", "origin_refused"),
        ("localhost", "null", "origin_refused"),
        ("localhost", "", "origin_refused"),
    ],
)
async def test_hosts_and_origins(
    tmp_path: Path, host: str, origin: str | None, code: str | None
) -> None:
    """Only requests under its own names reach the server, so a web page cannot use another name."""
    async with served(tmp_path, {"server": {"hosts": ["docs.example"]}}) as here:
        headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
        answer = await here.client().get("/knowledge-bases", headers=headers)
        if code is None:
            assert answer.status_code == 200
        else:
            assert problem(answer) == (403, code)
        # Health probes call the server by its address.
        assert (await here.client().get("http://localhost/healthz", headers=headers)).is_success


async def test_one_host_is_named(here: Served) -> None:
    for hosts in ([], [b"localhost", b"localhost"]):
        status, headers, _ = await send(here.app, headers=[(b"host", host) for host in hosts])
        assert status == 403
        assert headers["x-content-type-options"] == "nosniff"


async def test_any_host_may_be_named_where_that_is_declared(tmp_path: Path) -> None:
    async with served(tmp_path, {"server": {"hosts": ["*"]}}) as here:
        headers = {"Host": "what.ever"}
        assert (await here.client().get("/knowledge-bases", headers=headers)).status_code == 200


# The headers of every answer


async def test_every_answer_is_marked(here: Served) -> None:
    """Errors also have the id of the request, and no page of another site may read any answer."""
    client = here.client()
    for method, path in (
        *(("GET", "/knowledge-bases"), ("GET", "/nothing"), ("OPTIONS", "/knowledge-bases")),
        *(("GET", "http://localhost/healthz"), ("POST", "/knowledge-bases"), ("TRACE", "/")),
    ):
        answer = await client.request(method, path, headers={"X-Request-ID": "a-1.B_2"})
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"] == "a-1.B_2"
        assert not [name for name in answer.headers if name.startswith("access-control")]
    answer = await client.options("/knowledge-bases")
    assert problem(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    for wrong in ("", "a b", "x" * 65, "ä", "a\n", '"'):
        sent = [(b"X-Request-ID", wrong.encode())]
        answer = await client.get("/knowledge-bases", headers=sent)
        assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_head_is_get_without_the_body(here: Served) -> None:
    client = here.client()
    for path in ("/knowledge-bases/handbook", "http://localhost/readyz", "/nothing"):
        got, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        for name in ("content-type", "content-length", "etag"):
            assert head.headers.get(name) == got.headers.get(name)
    refused = await client.head("/knowledge-bases/handbook/ingest")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


async def test_other_protocols_are_refused(here: Served) -> None:
    sent: list[Any] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def keep(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/api/v0/knowledge-bases", "headers": []}
    await here.app(scope, receive, keep)
    assert sent == [{"type": "websocket.close", "code": 1008}]


# Bodies


async def test_bodies_have_a_limit(here: Served) -> None:
    client, path = here.client(), "/knowledge-bases/tours"
    large = b'{"description": "' + b"x" * MOST_BYTES + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 1 << 20):
            yield large[start : start + (1 << 20)]

    json = {"Content-Type": "application/json"}
    for content in (large, pieces()):
        answer = await client.put(path, content=content, headers=json)
        assert problem(answer) == (413, "too_large")
    for wrong in ("x", "-1", "1.5", "٣", "9" * 5000):
        sent = [(b"Content-Type", b"application/json"), (b"Content-Length", wrong.encode())]
        answer = await client.put(path, content=b"{}", headers=sent)
        assert problem(answer) == (400, "invalid_header"), wrong
    many = [(b"host", b"localhost"), (b"content-length", b"1"), (b"content-length", b"2")]
    assert (await send(here.app, headers=many))[0] == 400
    just = b'{"unknown key": "' + b"x" * (MOST_BYTES - 19) + b'"}'
    assert len(just) == MOST_BYTES
    assert problem(await client.put(path, content=just, headers=json))[0] == 422


async def test_bodies_are_json(here: Served) -> None:
    client, path = here.client(), "/knowledge-bases/tours"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = await client.put(path, content=b"{}", headers={"Content-Type": kind})
        assert problem(answer) == (415, "unsupported_media_type"), kind
    answer = await client.put(path, content=b"{", headers={"Content-Type": "application/json"})
    assert problem(answer) == (400, "invalid_json")
    number, json_type = b'{"text": ' + b"9" * 5000 + b"}", {"Content-Type": "application/json"}
    for route in ("/knowledge-bases/handbook/documents", "/query"):
        answer = await client.post(route, content=number, headers=json_type)
        assert problem(answer) == (400, "invalid_json"), route
        assert "an integer of too many digits" in answer.json()["detail"]
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert (await client.put(path, json=TOURS, headers=charset)).status_code == 201


# The door alone, around slow applications


Failures = list[tuple[str, BaseException]]


def door(
    app: ASGIApp, tokens: Tokens, failures: Failures | None = None, **options: Any
) -> RequestGuard:
    log = [] if failures is None else failures
    return RequestGuard(
        app,
        hosts=Hosts([]),
        callers=Callers(tokens),
        rates=options.pop("rates", None),
        is_draining=options.pop("is_draining", lambda: False),
        log_failure=lambda message, error, sent: log.append((message, error)),
        **options,
    )


async def send(
    app: ASGIApp, path: str = "/x", method: str = "GET", headers: Any = ((b"host", b"localhost"),)
) -> tuple[int, dict[str, str], bytes]:
    """Send a request as an ASGI server does, and return status, headers and body of the answer."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": list(headers),
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("localhost", 80),
        "client": None,
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def keep(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, keep)
    start, *rest = sent
    assert {part["type"] for part in rest} <= {"http.response.body"}
    fields = {name.decode(): value.decode() for name, value in start["headers"]}
    return start["status"], fields, b"".join(part.get("body", b"") for part in rest)


def answering(work: Callable[[Send], Any]) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await work(send)

    return app


async def begin(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def test_an_answer_has_to_begin_in_time(tokens: Tokens) -> None:
    """If an answer does not begin in time, the caller gets an error, and the work is cancelled."""
    ended: list[str] = []

    async def slow(send: Send) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")
            await begin(send)

    began = time.monotonic()
    status, headers, body = await send(door(answering(slow), tokens, seconds=0.1))
    assert (status, ended) == (504, ["cancelled"])
    assert b'"code": "timeout"' in body
    assert headers["x-content-type-options"] == "nosniff"
    assert time.monotonic() - began < 30


async def test_a_thread_delays_no_answer(tokens: Tokens) -> None:
    """Work in a thread cannot be interrupted, but the caller is answered in time."""
    release, answered = threading.Event(), asyncio.Event()

    async def stuck(send: Send) -> None:
        await call(release.wait, 30)

    async def told_first() -> None:
        await asyncio.wait_for(answered.wait(), 10)
        release.set()

    async def keep(message: Message) -> None:
        answered.set()

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    scope["query_string"] = b""
    around = door(answering(stuck), tokens, seconds=0.1)
    await asyncio.gather(around(scope, receive, keep), told_first())


async def test_a_stream_is_not_cut(tokens: Tokens) -> None:
    async def stream(send: Send) -> None:
        await begin(send)
        for _ in range(5):
            await asyncio.sleep(0.3)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await send({"type": "http.response.body", "body": b"."})

    status, _, body = await send(door(answering(stream), tokens, seconds=1))
    assert (status, body) == (200, b"xxxxx.")


async def test_who_goes_away_ends_the_work(tokens: Tokens) -> None:
    """If the server stops and cancels a request, none of its work is left."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow(send: Send) -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    request = asyncio.create_task(send(door(answering(slow), tokens)))
    await begun.wait()
    request.cancel()
    await asyncio.wait({request})
    assert ended.is_set()


LEFT = ExceptionGroup("a client has left its stream", [BrokenResourceError()])


@pytest.mark.parametrize("error", [RuntimeError("hidden words"), LEFT])
@pytest.mark.parametrize("has_begun", [False, True])
async def test_mistakes_are_only_logged(tokens: Tokens, error: Exception, has_begun: bool) -> None:
    failures: Failures = []

    async def broken(send: Send) -> None:
        if has_begun:
            await begin(send)
        raise error

    status, _, body = await send(door(answering(broken), tokens, failures))
    assert status == (200 if has_begun else 500)
    assert b"hidden words" not in body
    is_logged = not (has_begun and error is LEFT)
    assert [logged for _, logged in failures] == [error] * is_logged


async def test_a_stopping_server_refuses(tokens: Tokens) -> None:
    status, headers, body = await send(door(answering(begin), tokens, is_draining=lambda: True))
    assert (status, headers["retry-after"]) == (503, "5")
    assert b'"code": "draining"' in body


# Over a socket


def test_large_bodies_are_answered(process: Process) -> None:
    """The answer arrives while the caller still sends, and the next request is answered too."""
    large = b'{"description": "' + b"x" * MOST_BYTES + b'"}'
    json = {"Content-Type": "application/json"}
    with process.client() as client:
        for content in (large, iter([large])):
            answer = client.put("/knowledge-bases/tours", content=content, headers=json)
            assert problem(answer) == (413, "too_large")
        assert client.get("/knowledge-bases").status_code == 200


def test_upgrades_are_not_answered(process: Process) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    with process.client(headers=upgrade) as client:
        assert client.get("/knowledge-bases").status_code == 200


def test_head_over_a_socket(process: Process) -> None:
    with process.client() as client:
        head = client.head("/knowledge-bases/handbook")
        got = client.get("/knowledge-bases/handbook")
        assert head.headers["content-length"] == got.headers["content-length"]
