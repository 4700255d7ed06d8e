"""`lorebind serve`: its addresses, shutdown, logs and metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind.server.listening import is_loopback, listen
from lorebind.server.state.tables import open_state
from lorebind_config.reading.loading import load_project
from tests.app.forked_python import CONSTANTS, Forked, ForkedPython
from tests.app.helpers import Cli

from .conftest import PROJECT, Process, serving, write_project
from .in_process import problem, served

TOURS = {"sources": [{"type": "inline", "documents": [{"id": "a", "text": "Tours leave at 9."}]}]}
SLOW = Path(__file__).parents[1] / "slow_embedder.py"


@pytest.fixture
def shop(empty_cli: Cli) -> Cli:
    """Return the command line in the folder of a project."""
    write_project(empty_cli.root)
    return empty_cli


# Addresses


def test_other_machines_need_tokens(shop: Cli, socket_enabled: None) -> None:
    done = shop("serve", "--host", "0.0.0.0", "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "lorebind: other machines could call the server at 0.0.0.0, and there are no tokens; "
        "create one with: lorebind token create NAME --rights read\n"
    )


def test_other_machines_are_served_with_tokens(
    shop: Cli, python: Path, socket_enabled: None
) -> None:
    """Other machines need a token, even if the last was revoked and the server has seen none."""
    text = shop("token", "create", "one", "--rights", "read").out.strip()
    with started(python, shop.root, "--host", "0.0.0.0", "--port", "0") as server:
        port = re.search(r":(\d+)\n$", server.first)[1]  # type: ignore[index]
        url = f"http://127.0.0.1:{port}/api/v0/knowledge-bases"
        shop("token", "revoke", "one")
        assert httpx.get(url).status_code == 401
        other = shop("token", "create", "other", "--rights", "read").out.strip()
        for token, status in ((text, 401), (other, 200)):
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(url, headers=headers).status_code == status
        headers |= {"Host": "evil.example"}
        assert httpx.get(url, headers=headers).status_code == 403
        assert server.stop() == (0, "")


def test_loopback_is_what_the_socket_says(socket_enabled: None) -> None:
    """Whether a server is local depends on its socket, not on the host name."""
    for host, local in (("localhost", True), ("127.0.0.2", True), ("0.0.0.0", False)):
        sockets = listen(host, 0)
        assert is_loopback(sockets) is local
        assert len({listener.getsockname()[1] for listener in sockets}) == 1
        for listener in sockets:
            listener.close()


async def test_small_answers_are_not_delayed(socket_enabled: None) -> None:
    """Connections have TCP_NODELAY, so that a small answer does not wait for the one before."""
    accepted: asyncio.Queue[int] = asyncio.Queue()

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket_ = writer.get_extra_info("socket")
        accepted.put_nowait(socket_.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    for sock in listen("localhost", 0):
        async with await asyncio.start_server(accept, sock=sock):
            _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
            assert await accepted.get()
            writer.close()


def test_a_port_in_use(shop: Cli, socket_enabled: None) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        done = shop("serve", "--port", str(port))
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(
        rf"lorebind: cannot listen on 127.0.0.1:{port}: Address already in use; "
        r"choose another --host or --port\n",
        done.err,
    )


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing/s", "No such file or directory"),
        ("lorebind.yaml", "it exists and is not a socket"),
        (".", "it exists and is not a socket"),
        ("x" * 120, "AF_UNIX path too long"),
    ],
)
def test_a_socket_that_cannot_be(shop: Cli, path: str, reason: str) -> None:
    done = shop("serve", "--uds", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"lorebind: cannot listen on {path}: {reason}; choose another --uds\n"
    assert (shop.root / "lorebind.yaml").is_file()


def test_a_folder_that_cannot_be_written(shop: Cli) -> None:
    """A socket in a folder that is not writable is refused; /proc is such a folder for root too."""
    done = shop("serve", "--uds", "/proc/s")
    assert (done.code, done.out) == (2, "")
    assert re.match(r"lorebind: cannot listen on /proc/s: .*; choose another --uds\n$", done.err)


def test_without_the_extra(shop: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = shop("serve")
    assert (done.code, done.out) == (1, "")
    assert "install it with: pip install 'lorebind[server]'" in done.err
    assert done.err.count("\n") == 1


def test_a_socket_belongs_to_its_server(shop: Cli, tmp_path_factory: Any) -> None:
    """Only its user can connect; it is replaced if no server listens on it, and finally removed."""
    path = Path(f"/tmp/lb-{time.time_ns()}")
    with serving(shop.root, socket=path) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert server.process.poll() is None
        refused = shop("serve", "--uds", str(path))
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.endswith("another server does; choose another --uds\n")
        with server.client() as client:
            assert client.get("/knowledge-bases").status_code == 200
        server.stop(signal.SIGKILL)
        assert path.is_socket()
    with serving(shop.root, socket=path) as server, server.client() as client:
        assert client.get("/knowledge-bases").status_code == 200
    assert not path.exists()


def test_two_servers_share_a_state(shop: Cli) -> None:
    with (
        serving(shop.root) as server,
        serving(shop.root) as other,
        server.client() as first,
        other.client() as second,
    ):
        assert first.put("/knowledge-bases/tours", json=TOURS).status_code == 201
        assert second.get("/knowledge-bases/tours").status_code == 200
        run = first.post("/knowledge-bases/tours/ingest", headers={"Prefer": "wait=20"}).json()
        path = f"/knowledge-bases/tours/runs/{run['run_id']}"
        assert second.get(path).json()["status"] == "completed"
        assert second.delete("/knowledge-bases/tours").status_code == 204
        assert problem(first.get("/knowledge-bases/tours")) == (404, "not_found")


# Shutdown


class Started(Process):
    """A process that has printed its address or has ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(process, Path())
        assert process.stdout is not None
        self.first = process.stdout.readline()


@contextmanager
def started(python: str | Path, folder: Path, *options: str) -> Iterator[Started]:
    """Run a server with options of the test, and stop it."""
    process = Forked(
        [python, "-m", "lorebind", "serve", "--project", str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield Started(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def python(forked: ForkedPython) -> Path:
    return forked.commands / "python"


def with_a_slow_embedder(shop: Cli, log: Path, *, seconds: int) -> dict[str, str]:
    """Give the project an embedder whose calls take that long; return its environment."""
    slow = {"id": "words", "provider": "langchain", "class": "slow_embedder:Slow"}
    write_project(shop.root, {**PROJECT, "embedders": [slow]})
    (shop.root / "slow_embedder.py").write_text(SLOW.read_text())
    return {"SLOW_LOG": str(log), "SLOW_GATE": "", "SLOW_SECONDS": str(seconds)}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_order(shop: Cli, python: Path, how: int) -> None:
    """A signal right after the address is printed stops the server, which prints nothing else."""
    path = f"/tmp/lb-{time.time_ns()}"
    program = sys.executable if how == signal.SIGINT else python
    with started(program, shop.root, "--uds", path) as server:
        assert server.first == f"serving at unix:{path}\n"
        assert server.stop(how) == (0, "")
    assert not Path(path).exists()


STUBBORN = """\
import asyncio, contextlib, os, pathlib
from langchain_core.embeddings import Embeddings


class Stubborn(Embeddings):
    async def hang(self, text):
        pathlib.Path(os.environ["LOG"]).touch()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    aembed_documents = aembed_query = hang
    embed_documents = embed_query = None
"""


def test_the_second_interrupt_ends_it_at_once(shop: Cli, tmp_path: Path) -> None:
    """A second interrupt ends it immediately, even if an embedder cannot be cancelled."""
    log = tmp_path / "calls"
    stubborn = {"id": "words", "provider": "langchain", "class": "stubborn:Stubborn"}
    write_project(shop.root, {**PROJECT, "embedders": [stubborn]})
    (shop.root / "stubborn.py").write_text(STUBBORN)
    with serving(shop.root, LOG=str(log)) as server, server.client() as client:
        assert client.post("/knowledge-bases/handbook/ingest").status_code == 202
        while not log.exists():
            time.sleep(0.05)
        server.process.send_signal(signal.SIGINT)
        while client.get("/knowledge-bases").status_code == 200:
            time.sleep(0.05)
        assert server.process.poll() is None
        began = time.monotonic()
        code, printed = server.stop(signal.SIGINT)
        assert (code, printed) == (130, "")
        assert time.monotonic() - began < 20  # it would wait for 25 s


SHORT = {f"lorebind.server.serve:{name}_SECONDS": s for name, s in (("DRAIN", 1), ("LAST", 3))}


def test_it_ends_although_an_embedder_hangs(shop: Cli, tmp_path: Path) -> None:
    """The limits (of a few seconds here) are not exceeded; the next start resumes its runs."""
    log = tmp_path / "calls"
    environ = with_a_slow_embedder(shop, log, seconds=600)
    environ[CONSTANTS] = json.dumps(SHORT)
    with serving(shop.root, **environ) as server, server.client() as client:
        where = "/knowledge-bases/handbook"
        run = client.post(f"{where}/ingest").json()["run_id"]
        with ThreadPoolExecutor(2) as threads:
            asking = threads.submit(client.get, f"{where}/runs/{run}/events")
            adding = threads.submit(client.post, f"{where}/documents", json={"text": "More."})
            while not log.exists() or len(client.get(f"{where}/runs").json()["items"]) < 2:
                time.sleep(0.05)
            began = time.monotonic()
            assert server.stop() == (0, "")
            assert time.monotonic() - began < 40  # the default limits add up to 50 s
            assert asking.result().status_code == 200
            assert adding.result().status_code == 202
    database = open_state(load_project(shop.root))
    with database.reading() as sql:
        assert sql.run("select status, owner from server_runs") == [("interrupted", "")] * 2
    database.close()


def test_it_stops_where_the_project_cannot_start(shop: Cli, python: Path) -> None:
    lost = {"id": "words", "provider": "langchain", "class": "lost:Lost"}
    kbs = [{**PROJECT["knowledge_bases"][0], "ingest": "on_start"}]
    write_project(shop.root, {**PROJECT, "embedders": [lost], "knowledge_bases": kbs})
    (shop.root / "lost.py").write_text(LOST)
    path = f"/tmp/lb-{time.time_ns()}"
    with started(python, shop.root, "--uds", path) as server:
        printed, _ = server.process.communicate(timeout=60)
        assert server.process.returncode == 1
        assert re.fullmatch("lorebind: .*ValueError: no such model\n", printed)


LOST = """\
from langchain_core.embeddings import Embeddings


class Lost(Embeddings):
    def embed_documents(self, texts):
        raise ValueError("no such model")

    embed_query = embed_documents
"""


def test_a_function_that_stops_the_event_loop(shop: Cli) -> None:
    """The run completes, and the server keeps serving."""
    task = {"id": "t", "type": "python", "call": "stopping:stop"}
    write_project(shop.root, {**PROJECT, "workflows": [{"id": "w", "tasks": [task]}]})
    (shop.root / "stopping.py").write_text(STOPPING)
    with serving(shop.root) as server, server.client() as client:
        for _ in range(2):
            assert client.post("/workflows/w/runs", json={}).json()["output"] == "stopped"


STOPPING = """\
import asyncio


async def stop():
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return "stopped"
"""


def test_it_is_ready_when_the_project_has_started(shop: Cli) -> None:
    kbs = [{**PROJECT["knowledge_bases"][0], "ingest": "on_start"}]
    write_project(shop.root, {**PROJECT, "knowledge_bases": kbs})
    with serving(shop.root):
        pass
    (listed, *_) = json.loads(shop("knowledge", "list", "-o", "json").out)["knowledge_bases"]
    assert listed["stats"]["documents"]["ready"] == 2


# Logs


def test_each_request_is_logged_where_that_is_wanted(shop: Cli) -> None:
    """Requests are logged as JSON, without anything that the caller has sent."""
    text = shop("token", "create", "one", "--rights", "read").out.strip()
    headers = {"Authorization": f"Bearer {text}", "X-Request-ID": "mine"}
    with serving(shop.root, "-v") as server:
        with server.client(headers=headers) as client:
            client.get("/knowledge-bases/handbook?q=my-question")
            client.get("/knowledge-bases/secret-name")
            client.get("/nowhere/secret-name", headers={"Authorization": "Bearer wrong-token"})
        _, printed = server.stop()
    lines = [line for line in printed.splitlines() if "INFO lorebind.server: {" in line]
    entries = [json.loads(line.partition("lorebind.server: ")[2]) for line in lines]
    entries = [entry for entry in entries if entry["request_id"] == "mine"]
    fields = ["method", "route", "status", "caller"]
    route, caller = "/knowledge-bases/{kb_id}", text.split("_")[1]
    assert [[entry[name] for name in fields] for entry in entries] == [
        ["GET", route, 200, caller],
        ["GET", route, 404, caller],
        ["GET", "", 401, ""],
    ]
    assert all(0 <= entry["seconds"] < 30 for entry in entries)
    for hidden in ("my-question", "secret-name", "wrong-token", text.split("_", 2)[2], "Traceback"):
        assert hidden not in printed


def test_requests_are_fields_of_lines_of_json(shop: Cli) -> None:
    logs = {"extensions": [{"provider": "logging", "format": "json"}]}
    write_project(shop.root, {**PROJECT, **logs})
    with serving(shop.root) as server:
        with server.client(headers={"X-Request-ID": "mine"}) as client:
            client.get("/knowledge-bases")
        _, printed = server.stop()
    lines = [json.loads(line) for line in printed.splitlines()]
    (entry,) = [line for line in lines if line.get("request_id") == "mine"]
    assert (entry["logger"], entry["event"], entry["status"]) == ("lorebind.server", "request", 200)


async def test_mistakes_are_logged_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the traceback without secrets; the caller sees neither."""
    dsn = "postgresql://me:pa55word@db.internal/kb"
    monkeypatch.setenv("KEPT_AT", dsn)
    more = {
        "vector_dbs": [
            {"id": "there", "type": "pgvector", "config": {"dsn": "{{ .env.KEPT_AT }}"}}
        ],
        "server": {"state": {"path": "state.db"}},
    }
    kbs = [{**PROJECT["knowledge_bases"][0], "vector_db": "there"}]
    async with served(tmp_path, {**more, "knowledge_bases": kbs}) as here:

        def broken(*_: object) -> Any:
            raise RuntimeError(f"cannot open {dsn} as 'pa55word' for {question!r} and {more_of_it}")

        question, more_of_it = 'Who\'s "who"?', "in the query"
        here.server.stored.put = broken  # type: ignore[method-assign]
        path = f"/knowledge-bases/tours?q={more_of_it}"
        answer = await here.client().put(path, json={**TOURS, "description": question})
        assert problem(answer) == (500, "internal_error")
        for hidden in ("pa55word", "db.internal", question, "who", more_of_it):
            assert hidden not in answer.text + caplog.text
        (record,) = [record for record in caplog.records if record.name == "lorebind.server"]
        assert record.levelno == logging.ERROR
        message = record.getMessage()
        assert message.startswith(f"request {answer.headers['x-request-id']} failed\nTraceback ")
        assert "RuntimeError: cannot open {{ .env.KEPT_AT }} as " in message
        assert "in broken" in message


# Metrics


def metrics(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_name_only_what_is_declared(shop: Cli) -> None:
    """Knowledge bases created over the API are counted together, and tenants are never named."""
    wait = {"Prefer": "wait=20"}
    with serving(shop.root) as server, server.client() as client:
        for number in range(3):
            tenant = {"X-Tenant-ID": f"tenant-{number}"}
            for kb in (f"made-{number}", "handbook"):
                if kb != "handbook":
                    client.put(f"/knowledge-bases/{kb}", json=TOURS, headers=tenant)
                run = client.post(f"/knowledge-bases/{kb}/ingest", headers={**tenant, **wait})
                assert run.json()["status"] == "completed"
        answer = client.get("http://localhost/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        samples = metrics(answer.text)
        for kb, documents in (("handbook", 2), ("api", 1)):
            name = f'knowledge_ingests_total{{kb_id="{kb}",outcome="completed"}}'
            assert samples[name] == 3
            ready = f'knowledge_documents{{kb_id="{kb}",state="ready"}}'
            assert samples[ready] == 3 * documents
        assert not re.search("made-|tenant-", answer.text)
        labels = set(re.findall('kb_id="([^"]*)"', answer.text))
        assert labels == {"handbook", "api"}

        shop("token", "create", "one", "--rights", "read")
        time.sleep(0.6)
        assert problem(client.get("http://localhost/metrics")) == (401, "unauthenticated")


async def test_metrics_of_the_declared_extension(tmp_path: Path) -> None:
    """If the extension writes a file, it has its own registry, which is served."""
    declared = {"extensions": [{"provider": "prometheus", "textfile": "a.prom"}]}
    async with served(tmp_path, declared) as here:
        answer = await here.client().get("http://localhost/metrics")
        assert answer.status_code == 200
        assert "knowledge_ingests_total" in answer.text
        assert "python_info" not in answer.text
        extensions = here.server.project.knowledge.events.extensions
        assert [type(extension).__name__ for extension in extensions] == ["Prometheus"]


async def test_metrics_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    async with served(tmp_path) as here:
        answer = await here.client().get("http://localhost/metrics")
        assert problem(answer) == (503, "not_installed")
        assert "lorebind[telemetry]" in answer.json()["detail"]
