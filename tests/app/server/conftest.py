"""Servers for tests: real processes, reached over Unix sockets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lorebind.server.state.tables import TABLES, open_state
from lorebind.server.state.tokens import Rights, Tokens
from lorebind_config.reading.loading import load_project
from lorebind_knowledge.database.databases import EmbeddedDatabase
from tests.app.forked_python import Forked, ForkedPython

PROJECT: dict[str, Any] = {
    "name": "shop",
    "embedders": [{"id": "words", "provider": "hashing"}],
    "knowledge_bases": [
        {
            "id": "handbook",
            "sources": [
                {
                    "type": "inline",
                    "documents": [
                        {"id": "returns", "text": "You can return goods within 30 days."},
                        {"id": "shipping", "text": "Shipping takes five working days."},
                    ],
                }
            ],
        }
    ],
}


_forking: list[ForkedPython] = []


@pytest.fixture(scope="session", autouse=True)
def forking(forked: ForkedPython) -> Iterator[None]:
    """Let `serving` fork its servers: importing their libraries takes longer than most tests."""
    _forking.append(forked)
    yield
    _forking.clear()


def forked_lorebind() -> str:
    """Return the path of a command that does what `lorebind` does, in a forked process."""
    return str(_forking[-1].commands / "lorebind")


class Process:
    """A running `lorebind serve`."""

    def __init__(self, process: subprocess.Popen[str], socket: Path) -> None:
        self.process = process
        self.socket = socket
        self.url = ""
        """The URL of the server."""

    def client(self, **options: Any) -> httpx.Client:
        """Return a client of the API; `headers` and other options are those of httpx."""
        transport = httpx.HTTPTransport(uds=str(self.socket))
        url = "http://localhost/api/v0"
        return httpx.Client(transport=transport, base_url=url, timeout=60, **options)

    def stop(self, how: int = signal.SIGTERM) -> tuple[int, str]:
        """Stop the process, and return its exit code and its output."""
        self.process.send_signal(how)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output


def write_project(folder: Path, declared: Mapping[str, Any] = PROJECT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lorebind.yaml").write_text(yaml.safe_dump(dict(declared)))
    return folder


def token_of(folder: Path, rights: Rights = "admin") -> str:
    """Return a new token, by default with all rights, for servers of a project."""
    database = open_state(load_project(folder))
    _, text = Tokens(database).create("app", rights)
    database.close()
    return text


@contextmanager
def serving(
    folder: Path,
    *options: str,
    socket: Path | None = None,
    code: str = "",
    ready: bool = True,
    **environ: str,
) -> Iterator[Process]:
    """Run a server of the project in a folder within the block, and stop it in order.

    Args:
        folder: the project's folder.
        options: additional options. With a port, the yielded client cannot reach the server.
        socket: the socket to listen on; None creates one.
        code: Python code to run in a new process instead of the command `lorebind`.
        ready: whether to wait until its knowledge bases are ready.
        environ: additional variables.
    """
    with tempfile.TemporaryDirectory(prefix="lb") as short:  # a socket's path has a length limit
        socket = socket or Path(short) / "s"
        where = () if "--port" in options else ("--uds", str(socket))
        python = [sys.executable, "-c", code] if code else [forked_lorebind()]
        process = (subprocess.Popen if code else Forked)(
            [*python, "serve", "--project", str(folder), *where, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environ},
        )
        server = Process(process, socket)
        try:
            _wait_until(server, "readyz" if ready else "healthz")
            yield server
            if process.poll() is None:
                code, output = server.stop()
                assert code == 0, output
        finally:
            with process:  # closes its output streams
                process.kill()


@contextmanager
def working(folder: Path, *options: str, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run `lorebind worker` of the project in a folder within the block, and stop it in order."""
    command = [forked_lorebind(), "worker", "--project", str(folder)]
    process = Forked(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environ},
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("waiting for "), first + process.communicate()[0]
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0, output
    finally:
        with process:
            process.kill()


def _wait_until(server: Process, probe: str) -> None:
    assert server.process.stdout is not None
    first = server.process.stdout.readline()
    assert first.startswith("serving at "), first + server.process.communicate()[0]
    server.url = first.removeprefix("serving at ").strip()
    deadline = time.monotonic() + 60
    while server.socket.exists():
        with server.client() as client:
            if client.get(f"http://localhost/{probe}").status_code == 200:
                break
        assert time.monotonic() < deadline, f"{probe} fails for 60 s"
        time.sleep(0.05)


def problem(response: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a problem document."""
    assert response.headers["content-type"] == "application/problem+json"
    document = response.json()
    assert document["status"] == response.status_code
    return response.status_code, document["code"]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Serve the shop with nothing ingested."""
    with serving(write_project(tmp_path_factory.mktemp("shop"))) as process:
        yield process


@pytest.fixture(scope="module")
def api(process: Process) -> Iterator[httpx.Client]:
    with process.client() as api:
        yield api


@pytest.fixture
def tokens() -> Iterator[Tokens]:
    database = EmbeddedDatabase(None, TABLES)
    yield Tokens(database)
    database.close()
