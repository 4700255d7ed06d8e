"""A Qdrant server on 127.0.0.1 for tests: its HTTP interface over qdrant-client's local mode.

It supports the requests of `QdrantStore`. Requests run one at a time, and those of several clients
interleave freely, as on a real server. Like a hosted server, it refuses to filter by fields without
a payload index, and requests that are too big.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic_core import to_json
from qdrant_client import QdrantClient, models


@dataclass
class Loopback:
    """The test server."""

    url: str = ""
    api_key: str = ""
    """The key that clients must send; empty means none."""
    seen: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    """Method and path of each request, with its query parameters."""
    bodies: list[Any] = field(default_factory=list)
    indexed: dict[str, set[str]] = field(default_factory=dict)
    """Fields with a payload index, by collection."""
    before: Callable[[str], None] = lambda path: None
    """Called with the path before each response; if it raises, the response is a 500."""
    engine: Any = None

    def drop_all(self) -> None:
        """Drop all collections, as if the server was new."""
        for collection in self.engine.get_collections().collections:
            self.engine.delete_collection(collection.name)
        self.indexed.clear()


@contextmanager
def serve() -> Iterator[Loopback]:
    """Run an empty server inside the block."""
    loopback = Loopback(
        engine=QdrantClient(":memory:", force_disable_check_same_thread=True),
    )
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            target = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = json.loads(body) if body else {}
            loopback.seen.append((f"{self.command} {target.path}", parse_qs(target.query)))
            loopback.bodies.append(request)
            status, result = 200, None
            if loopback.api_key not in ("", self.headers.get("api-key")):
                status = 401
            elif int(self.headers.get("Content-Length") or 0) > _MOST_BYTES:
                status, result = 413, "payload too large"
            else:
                try:
                    loopback.before(target.path)
                    with turn:
                        result = _result(loopback, self.command, target.path, request)
                except Exception as error:
                    result = str(error)
                    status = 404 if "not found" in result else 500
            reply: Any = {"time": 0.0, "status": "ok", "result": result}
            if status != 200:
                reply = {"time": 0.0, "status": {"error": result}}
            if not target.path.startswith("/collections/"):
                status, reply = 404, "this is another website"
            content = to_json(reply)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *args: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    loopback.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield loopback
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        loopback.engine.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that do not wait for their response."""


_MOST_BYTES = 32 * 2**20
_DONE = {"operation_id": 0, "status": "completed"}


def _result(loopback: Loopback, method: str, path: str, body: dict[str, Any]) -> Any:
    _, name, *rest = path.strip("/").split("/")
    engine = loopback.engine
    match method, "/".join(rest):
        case "GET", "exists":
            return {"exists": engine.collection_exists(name)}
        case "PUT", "":
            created = models.CreateCollection(**body)
            engine.create_collection(name, vectors_config=created.vectors)
            loopback.indexed[name] = set()
            return True
        case "GET", "":
            return engine.get_collection(name)
        case "PUT", "index":
            assert engine.collection_exists(name)
            loopback.indexed[name].add(body["field_name"])
            return _DONE
        case "PUT", "points":
            engine.upsert(name, [models.PointStruct(**point) for point in body["points"]])
            return _DONE
        case "POST", "points":
            request = models.PointRequest(**body)
            return engine.retrieve(
                name,
                request.ids,
                with_payload=request.with_payload,
                with_vectors=request.with_vector,
            )
        case "POST", "points/query":
            query = models.QueryRequest(**body)
            return engine.query_points(
                name,
                query=query.query,
                query_filter=_allowed(loopback, name, body["filter"]),
                limit=query.limit,
                with_payload=query.with_payload,
                with_vectors=query.with_vector,
            )
        case "POST", "points/count":
            meant = _allowed(loopback, name, body["filter"])
            return engine.count(name, count_filter=meant, exact=True)
        case "POST", "points/delete":
            selector = body.get("points") or _allowed(loopback, name, body["filter"])
            engine.delete(name, points_selector=selector)
            return _DONE
    raise AssertionError(f"not known here: {method} {path}")


def _allowed(loopback: Loopback, name: str, condition: dict[str, Any]) -> models.Filter:
    if loopback.engine.collection_exists(name):
        missing = set(_keys(condition)) - loopback.indexed[name]
        assert not missing, f"Index required but not found for {missing}"
    return models.Filter(**condition)


def _keys(condition: Any) -> Iterator[str]:
    """Return the fields of a filter, at any depth."""
    if isinstance(condition, list):
        for part in condition:
            yield from _keys(part)
    elif isinstance(condition, dict):
        if "key" in condition:
            yield condition["key"]
        for part in condition.values():
            yield from _keys(part)
