"""Clients that close their connection too early: they cost the server nothing for long."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .conftest import Process, serving
from .desk import write_desk

COUNT = 60
HANDBOOK = "/knowledge-bases/handbook"


def request(path: str, body: Any = None, *, accept: str = "*/*") -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [
        f"{'GET' if body is None else 'POST'} /api/v0{path} HTTP/1.1",
        "Host: localhost",
        f"Accept: {accept}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + content


QUERY = request(f"{HANDBOOK}/query", {"query": "returns"})
RUN = {"input": {"seconds": 0.1, "name": "n"}}
EVENTS = "text/event-stream"


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("sent", "before_close"),
    [
        pytest.param(request("/openapi.json") * 3, None, id="large answers that are not read"),
        pytest.param(QUERY * 5, None, id="pipelined"),
        pytest.param(QUERY, reset, id="reset"),
        pytest.param(QUERY, half_close, id="half-closed"),
        pytest.param(QUERY[:-4], None, id="half a body"),
        pytest.param(request(f"{HANDBOOK}/documents", {"text": "x"})[:-4], None, id="half a file"),
        pytest.param(request("/workflows/slow/runs", RUN, accept=EVENTS), None, id="a run"),
        pytest.param(
            request(f"{HANDBOOK}/documents", {"id": "a.md", "text": "x"}, accept=EVENTS),
            None,
            id="an addition",
        ),
    ],
)
def test_aborted_requests_leave_nothing_open(
    process: Process, sent: bytes, before_close: Callable[[socket.socket], None] | None
) -> None:
    def abort(_: int) -> None:
        with socket.socket(socket.AF_UNIX) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.settimeout(30)
            client.connect(str(process.socket))
            client.sendall(sent)
            if before_close is not None:
                before_close(client)
            time.sleep(0.02)

    before = open_sockets(process)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(abort, range(COUNT)))
    deadline = time.monotonic() + 60
    while open_sockets(process) > before:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def open_sockets(process: Process) -> int:
    """Return the number of open sockets of a server, after it has answered another request."""
    with process.client() as client:
        assert client.get("http://localhost/healthz").status_code == 200
    folder, count = f"/proc/{process.process.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
        except FileNotFoundError:
            continue
    return count


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = write_desk(tmp_path_factory.mktemp("desk"))
    with serving(folder) as server:
        yield server
        code, output = server.stop()
        assert code == 0
        assert output.count("Traceback") == 0
