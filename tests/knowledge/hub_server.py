"""A local server that speaks the needed part of the Hugging Face hub's protocol."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import onnx_models

EMBEDDER = "BAAI/bge-small-en-v1.5"
"""Fastembed's name of the model in `EMBEDDER_REPOSITORY`."""
EMBEDDER_REPOSITORY = "Qdrant/bge-small-en-v1.5-onnx-Q"
RERANKER = "Xenova/ms-marco-MiniLM-L-6-v2"
MULTILINGUAL = "intfloat/multilingual-e5-large"
SPLADE = "prithivida/Splade_PP_en_v1"
BM42 = "Qdrant/bm42-all-minilm-l6-v2-attentions"
OWN = "acme/own-embedder"
"""A repository that fastembed does not list."""

_PATH = re.compile(
    r"/(?:api/models/)?(?P<repository>[^/]+/[^/]+)/(?P<verb>revision|tree|resolve)/"
    r"(?P<revision>[^/]+)(?:/(?P<file>.+))?"
)


class HubServer(ThreadingHTTPServer):
    """Repositories with their branches and commits, stored in memory."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.branches: dict[tuple[str, str], str] = {}
        self.commits: dict[tuple[str, str], Mapping[str, bytes]] = {}
        self.requests: list[str] = []
        self.cuts = 0
        """The number of graph downloads that break off in the middle."""
        self.gate: Callable[[str], object] = lambda path: None
        """Called in every response with a body, after half of it is sent."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def publish(self, repository: str, files: Mapping[str, bytes], branch: str = "main") -> str:
        """Add a commit, and let the branch point to it."""
        content = json.dumps([repository, branch, *(f"{k} {v!r}" for k, v in files.items())])
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits[repository, commit] = files
        self.branches[repository, branch] = commit
        return commit

    def downloads(self) -> list[str]:
        """The names of the downloaded files."""
        return [request.partition("/resolve/")[2].partition("/")[2] for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_HEAD(self) -> None:
        self._answer(only_head=True)

    def do_GET(self) -> None:
        self._answer(only_head=False)

    def _answer(self, *, only_head: bool) -> None:
        path = self.path.partition("?")[0]
        parts = _PATH.fullmatch(path)
        if parts is None:
            return self._refuse("RepoNotFound", "Repository not found")
        if not only_head and parts["verb"] == "resolve":
            self.server.requests.append(path)
        repository, revision = parts["repository"], parts["revision"]
        commit = self.server.branches.get((repository, revision), revision)
        files = self.server.commits.get((repository, commit))
        if not any(name == repository for name, _ in self.server.branches):
            return self._refuse("RepoNotFound", "Repository not found")
        if files is None:
            return self._refuse("RevisionNotFound", f"Invalid rev id: {revision}")
        if parts["verb"] == "revision":
            sizes = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            info = {"id": repository, "sha": commit, "siblings": sizes}
            return self._send(json.dumps(info).encode())
        if parts["verb"] == "tree":
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": _digest(data)}
                for name, data in files.items()
            ]
            return self._send(json.dumps(tree).encode())
        if parts["file"] not in files:
            return self._refuse("EntryNotFound", "Entry not found")
        data = files[parts["file"]]
        headers = {"ETag": f'"{_digest(data)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        return self._send(data, headers, only_head=only_head)

    def _send(
        self, data: bytes, headers: Mapping[str, str] | None = None, *, only_head: bool = False
    ) -> None:
        begin = 0
        if resume := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")):
            begin = int(resume[1])
        self.send_response(206 if begin else 200)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        rest = data[begin:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if only_head:
            return
        half = len(rest) // 2
        self.wfile.write(rest[:half])
        if self.server.cuts and self.path.endswith(".onnx"):
            self.server.cuts -= 1
            self.close_connection = True
            return
        self.wfile.flush()
        self.server.gate(self.path)
        self.wfile.write(rest[half:])

    def _refuse(self, code: str, message: str) -> None:
        self.send_response(404)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


def _digest(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def embedder_files(*, seed: int = 7) -> dict[str, bytes]:
    graph = onnx_models.embedding_model(384, pooled=True, seed=seed)
    return onnx_models.hub_files("model_optimized.onnx", graph, onnx_models.piece_tokenizer())


def reranker_files() -> dict[str, bytes]:
    graph = onnx_models.cross_encoder()
    return onnx_models.hub_files("onnx/model.onnx", graph, onnx_models.tokenizer())


def splade_files() -> dict[str, bytes]:
    graph = onnx_models.splade_model()
    return onnx_models.hub_files("model.onnx", graph, onnx_models.piece_tokenizer())


@contextlib.contextmanager
def hub_server() -> Iterator[HubServer]:
    """Run a hub with small models under the names of real ones, and a custom model."""
    with HubServer() as server:
        server.publish(EMBEDDER_REPOSITORY, embedder_files())
        server.publish(RERANKER, reranker_files())
        tokens = onnx_models.embedding_model(1024, pooled=False)
        pieces = onnx_models.piece_tokenizer()
        files = onnx_models.hub_files("model.onnx", tokens, pieces) | {"model.onnx_data": b"none"}
        server.publish("Qdrant/multilingual-e5-large-onnx", files)
        server.publish("Qdrant/Splade_PP_en_v1", splade_files())
        bm42 = onnx_models.hub_files("model.onnx", onnx_models.attention_model(), pieces)
        words = {
            "stopwords.txt": b"the\nin\n",
            "special_tokens_map.json": b'{"cls_token": "[CLS]", "sep_token": "[SEP]"}',
        }
        server.publish("Qdrant/all_miniLM_L6_v2_with_attentions", bm42 | words)
        tokens = onnx_models.embedding_model(24, pooled=False)
        server.publish(OWN, onnx_models.hub_files("deep/model.onnx", tokens, pieces))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
