"""A local server that speaks OpenAI's `/v1/embeddings`, and fails on demand."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

import numpy as np

from lorebind_knowledge.embedders.openai import OpenAIEmbedder

S = TypeVar("S", bound="EmbeddingServer")

DIMENSION = 8
KEY = "sk-test-0123456789abcdef"


@dataclass(frozen=True)
class Reply:
    """A reply of the server instead of vectors."""

    status: int = 200
    body: Any = None
    """JSON, or a text that is sent unchanged."""
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False


def refusal(status: int, message: str, code: str = "", **headers: str) -> Reply:
    """Return an error in OpenAI's format."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"error": {"message": message, "type": "x", "code": code}}, names)


def vector_of(text: str, dimension: int) -> list[float]:
    """Return a unit vector that depends only on the text."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    numbers = np.random.default_rng(seed).standard_normal(dimension)
    values: list[float] = (numbers / np.linalg.norm(numbers)).astype(np.float32).tolist()
    return values


class EmbeddingServer(ThreadingHTTPServer):
    """Sends the given replies first, and then answers with `vector_of` each text."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: deque[Reply] = deque()
        self.most_texts: int | None = None
        """Larger batches are refused as too large."""
        self.gate: Callable[[], object] = lambda: None
        """Called in every request, while the request is being served."""
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.served_at_once = 0
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self._serving = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def batches(self) -> list[int]:
        """The number of texts in each request."""
        return [len(body["input"]) for body in self.bodies]

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        with self.lock:
            self._serving += 1
            self.served_at_once = max(self.served_at_once, self._serving)
        try:
            self.gate()
            yield
        finally:
            with self.lock:
                self._serving -= 1

    def answer(self, body: dict[str, Any]) -> Reply:
        texts: Sequence[str] = body["input"]
        if self.replies:
            return self.replies.popleft()
        if self.most_texts is not None and len(texts) > self.most_texts:
            return refusal(413, "Payload Too Large")
        vectors = [vector_of(text, body.get("dimensions") or DIMENSION) for text in texts]
        return Reply(body=embeddings(vectors, body.get("encoding_format", "float")))


def embeddings(vectors: Sequence[Sequence[float]], encoding: str = "float") -> dict[str, Any]:
    """Return the body of a valid response."""

    def encoded(vector: Sequence[float]) -> Any:
        if encoding == "float":
            return list(vector)
        return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()

    data = [
        {"object": "embedding", "index": index, "embedding": encoded(vector)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "data": data, "model": "m", "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.counted(), server.lock:
            server.bodies.append({"path": self.path, **body})
            server.headers.append(dict(self.headers.items()))
            reply = server.answer(body)
        if reply.hang:
            server.ended.wait(60)
        if reply.hang or reply.drop:
            self.close_connection = True
            return
        text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
        data = text.encode()
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


def embedding_server() -> contextlib.AbstractContextManager[EmbeddingServer]:
    return serving(EmbeddingServer())


@contextlib.contextmanager
def serving(fake: S) -> Iterator[S]:
    """Run the server within the block."""
    with fake as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()


def openai_embedder(server: EmbeddingServer, **settings: Any) -> OpenAIEmbedder:
    """Return an embedder that calls the server, with a model that OpenAI does not have."""
    defaults = {"model": "small", "api_key": lambda: KEY, "base_url": server.url, "timeout": 20}
    return OpenAIEmbedder(**(defaults | settings))
