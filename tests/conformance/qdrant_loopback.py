"""A Qdrant server on 127.0.0.1 for tests: its HTTP, over qdrant-client's local mode.

It knows what `QdrantStore` asks for. Requests are answered one at a time, and those of several
clients mix freely in between, as they do on a real server.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from qdrant_client import QdrantClient, models

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Loopback:
    """The server as its tests see it."""

    url: str = ""
    api_key: str = ""
    """What clients must send; empty lets everybody in."""
    seen: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    """Method and path of each request, with its query parameters."""
    bodies: list[Any] = field(default_factory=list)
    before: Callable[[str], None] = lambda path: None
    """Called with the path before a request is answered; what it raises is answered with 500."""
    engine: Any = None


@contextmanager
def serve() -> Iterator[Loopback]:
    """A server with nothing in it, for as long as the block lasts."""
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
            else:
                try:
                    loopback.before(target.path)
                    with turn:
                        result = _result(loopback.engine, self.command, target.path, request)
                except Exception as error:
                    status = 404 if "not found" in str(error) else 500
                    result = str(error)
            said = {"time": 0.0, "status": "ok", "result": result}
            if status != 200:
                said = {"time": 0.0, "status": {"error": result}}
            content = json.dumps(said).encode()
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
        """A client that did not wait for its answer is no error of the server."""


_DONE = {"operation_id": 0, "status": "completed"}


def _result(engine: QdrantClient, method: str, path: str, body: dict[str, Any]) -> Any:
    _, name, *rest = path.strip("/").split("/")
    match method, "/".join(rest):
        case "GET", "exists":
            return {"exists": engine.collection_exists(name)}
        case "PUT", "":
            created = models.CreateCollection(**body)
            return engine.create_collection(
                name,
                vectors_config=created.vectors,
                sparse_vectors_config=created.sparse_vectors,
            )
        case "GET", "":
            return engine.get_collection(name).model_dump(mode="json")
        case "PUT", "index":
            assert engine.collection_exists(name)
            return _DONE
        case "PUT", "points":
            engine.upsert(name, [models.PointStruct(**point) for point in body["points"]])
            return _DONE
        case "POST", "points":
            asked = models.PointRequest(**body)
            found = engine.retrieve(
                name,
                asked.ids,
                with_payload=asked.with_payload,
                with_vectors=asked.with_vector,
            )
            return [point.model_dump(mode="json") for point in found]
        case "POST", "points/scroll":
            scrolled = models.ScrollRequest(**body)
            page, offset = engine.scroll(
                name,
                scroll_filter=scrolled.filter,
                limit=scrolled.limit,
                offset=scrolled.offset,
                with_payload=scrolled.with_payload,
                with_vectors=scrolled.with_vector,
            )
            points = [point.model_dump(mode="json") for point in page]
            return {"points": points, "next_page_offset": offset}
        case "POST", "points/query":
            query = models.QueryRequest(**body)
            return engine.query_points(
                name,
                query=query.query,
                using=query.using,
                query_filter=query.filter,
                limit=query.limit,
                with_payload=query.with_payload,
                with_vectors=query.with_vector,
            ).model_dump(mode="json")
        case "POST", "points/count":
            counted = models.CountRequest(**body)
            return engine.count(name, count_filter=counted.filter, exact=True).model_dump()
        case "POST", "facet":
            facet = models.FacetRequest(**body)
            return engine.facet(
                name, key=facet.key, facet_filter=facet.filter, limit=facet.limit or 10, exact=True
            ).model_dump()
        case "POST", "points/batch":
            operations = models.UpdateOperations(**body).operations
            engine.batch_update_points(name, operations)
            return [_DONE] * len(operations)
        case "POST", "points/delete":
            selector: Any = body.get("points") or models.Filter(**body["filter"])
            engine.delete(name, points_selector=selector)
            return _DONE
    raise AssertionError(f"not known here: {method} {path}")
