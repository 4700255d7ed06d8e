"""`lorebind run --server`: a run goes on while its connection is lost, until Ctrl-C."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from lorebind.remote import RemoteProject
from lorebind.remote import connection as connection_module
from lorebind.remote.errors import ServerError
from lorebind_bindings.workflow.events import RunEvent
from lorebind_bindings.workflow.events.sinks import MemorySink
from tests.app.forked_python import CONSTANTS, Forked, ForkedPython

from .conftest import serving
from .desk import write_desk
from .test_remote_alone import UNCLOSED
from .test_runs import SOON
from .test_workflows import noted, wait_until_noted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_desk(tmp_path)


def await_run(api: httpx.Client, folder: Path, name: str) -> str:
    """Wait until the second task of the only run works, and return the path of the run."""
    wait_until_noted(folder, name)
    (run,) = api.get("/workflows/slow/runs").json()["items"]
    return f"/workflows/slow/runs/{run['run_id']}"


@UNCLOSED
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_survives_its_server(folder: Path, tmp_path: Path, how: signal.Signals) -> None:
    """Each event arrives once, in order, and no finished task runs again."""
    address, environ = tmp_path / "address", {CONSTANTS: json.dumps(SOON)}
    results: list[Any] = []
    sink, types = MemorySink(), list[str]()

    async def note(event: RunEvent) -> None:
        types.append(event.type)

    def run() -> None:
        with RemoteProject(f"unix:{address}") as project:
            inputs = {"seconds": 60, "name": "killed"}
            results.append(project.run("slow", inputs, thread_id="k", sinks=[sink, note]))

    running = threading.Thread(target=run)
    with serving(folder, **environ) as server, server.client() as api:
        address.symlink_to(server.socket)
        running.start()
        await_run(api, folder, "killed")
        while "wait" not in [event.task for event in sink.events]:
            time.sleep(0.02)
        server.process.send_signal(how)
        if how == signal.SIGTERM:
            with suppress(httpx.TransportError):  # it has ended
                while api.get("http://localhost/readyz").status_code == 200:
                    time.sleep(0.02)
            (folder / "awake").touch()
        assert server.process.wait(60) == (0 if how == signal.SIGTERM else -how)
    address.unlink()
    (folder / "awake").touch()
    with serving(folder, **environ) as server:
        address.symlink_to(server.socket)
        running.join(60)
    gc.collect()  # where the warnings of sockets that could not connect are ignored
    (result,) = results
    assert (result.status, result.output, result.thread_id) == ("completed", "\ud800", "k")
    assert [event.seq for event in sink.events] == list(range(1, len(sink.events) + 1))
    assert types == [event.type for event in sink.events]
    assert types.count("run_start") == 2
    assert noted(folder, "killed") == 1


def test_ctrl_c_cancels_the_run(folder: Path, forked: ForkedPython) -> None:
    with serving(folder) as server, server.client() as api:
        inputs = ["-i", "seconds=60", "-i", "name=c", "--thread", "c"]
        received = folder / "received"
        process = Forked(
            [
                *(str(forked.commands / "lorebind"), "run", "slow", *inputs),
                *("--events", str(received), "--server", f"unix:{server.socket}"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        where = await_run(api, folder, "c")
        while not received.stat().st_size:  # the command knows its run from then on
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "lorebind run slow --thread c --resume" in err
        assert api.get(where).json()["status"] == "cancelled"
        (folder / "awake").touch()


def test_a_reader_that_stops_and_others_that_cancel(folder: Path) -> None:
    with (
        serving(folder) as server,
        server.client() as api,
        RemoteProject(f"unix:{server.socket}") as project,
    ):
        inputs = {"seconds": 60, "name": "stopped"}
        events = iter(project.run_stream("slow", inputs, thread_id="s"))
        next(events)
        events.close()  # type: ignore[attr-defined]  # it is a generator
        (run,) = api.get("/workflows/slow/runs").json()["items"]
        assert run["status"] == "cancelled"
        others = iter(project.run_stream("slow", inputs, thread_id="o"))
        next(others)
        run, _ = api.get("/workflows/slow/runs").json()["items"]
        api.delete(f"/workflows/slow/runs/{run['run_id']}")
        with pytest.raises(ServerError, match=rf"run {run['run_id']} was cancelled"):
            list(others)
        (folder / "awake").touch()


@UNCLOSED
def test_a_request_whose_answer_is_lost_begins_one_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent again with its key. A server that was never reached is an error at once."""
    monkeypatch.setattr(connection_module, "_PAUSE_SECONDS", 0.05)
    lost: list[httpx.Response] = []
    send = httpx.Client.send

    def losing(client: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        response = send(client, request, **options)
        if request.method == "POST" and len(lost) < 2:
            lost.append(response)
            raise httpx.RemoteProtocolError("the connection was lost")
        return response

    with serving(folder) as server, server.client() as api:
        with monkeypatch.context() as patched:
            patched.setattr(httpx.Client, "send", losing)
            with RemoteProject(f"unix:{server.socket}") as project:
                inputs = {"seconds": 0, "name": "lost"}
                assert project.run("slow", inputs, thread_id="l").status == "completed"
        assert len(lost) == 2
        assert len(api.get("/workflows/slow/runs").json()["items"]) == 1
    began = time.monotonic()
    with (
        RemoteProject(f"unix:{folder / 'nobody'}") as project,
        pytest.raises(ServerError, match="cannot be reached"),
    ):
        project.run("slow", thread_id="n")
    assert time.monotonic() - began < 50
    gc.collect()
