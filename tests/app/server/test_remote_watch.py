"""`lorebind knowledge watch --server`: the server ingests its changed files."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.forked_python import ForkedPython
from tests.app.helpers import Cli
from tests.app.test_watch import watching

from .conftest import PROJECT, serving, write_project
from .in_process import problem, served
from .test_runs import BATCH, Slow

EVENTS = {"Accept": "text/event-stream"}
DOCS = {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}


def test_files_of_the_server_are_watched(tmp_path: Path, forked: ForkedPython) -> None:
    """The output is that of a local watch, which continues after a restart of the server."""
    folder = write_project(tmp_path / "served", PROJECT | {"knowledge_bases": [DOCS]})
    elsewhere = tmp_path / "elsewhere"
    for watched in (elsewhere, folder / "docs"):
        watched.mkdir()

    def write(name: str) -> None:
        (folder / f"docs/{name}.md").write_text(f"# {name}\n\nText of {name}.\n")

    write("a")
    with ExitStack() as stack:
        socket = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lb"))) / "s"
        with serving(folder, socket=socket):
            watch = stack.enter_context(watching(forked, elsewhere, "--server", f"unix:{socket}"))
            assert watch.says("Watching ").endswith(f"of unix:{socket}; stop with Ctrl-C.\n")
            assert "1 document (1 new)" in watch.says("Plan: ")
            watch.says("docs: completed")
            write("b")
            assert "2 documents (1 new, 1 unchanged)" in watch.says("Plan: ")
            watch.says("docs: completed")
            ended = time.monotonic()
        assert time.monotonic() - ended < 20  # the watch did not keep the server from ending
        watch.says("cannot be reached")
        write("c")
        with serving(folder, socket=socket):
            assert "3 documents (1 new, 2 unchanged)" in watch.says("Plan: ")
            watch.says("docs: completed")
            watch.process.send_signal(signal.SIGINT)
            line = watch.says("interrupted; finished work is kept")
            assert line.endswith(", and the next run completes it\n")
            assert watch.process.wait(60) == 130


def test_a_watch_waits_for_another_ingest(tmp_path: Path, forked: ForkedPython) -> None:
    slow = Slow(tmp_path / "slow")
    code = "from lorebind.cli import main; main()"  # not forked, to watch files
    with serving(slow.folder, code=code, **slow.environ) as server, server.client() as api:
        api.post("/knowledge-bases/texts/ingest")
        slow.wait_for(BATCH)
        with watching(forked, tmp_path, "texts", "--server", f"unix:{server.socket}") as watch:
            watch.says("Waiting for another ingest of texts to end.")
            slow.let_through(100)
            watch.says("texts: completed")


async def test_a_server_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    async with served(tmp_path) as here, here.client() as api:
        assert problem(await api.get("/changes")) == (400, "invalid_header")
        refused = await api.get("/changes", headers=EVENTS)
        assert problem(refused) == (503, "not_installed")
        assert "pip install 'lorebind[watch]'" in refused.json()["detail"]


def test_what_is_asked_of_a_server(tmp_path: Path, empty_cli: Cli) -> None:
    """An unknown knowledge base is refused. With --every, events come without changes."""
    with serving(write_project(tmp_path / "shop")) as server, server.client() as api:
        done = empty_cli("knowledge", "watch", "handbok", "--server", f"unix:{server.socket}")
        assert done.code == 2
        assert "'handbook'" in done.err
        wrong = api.get("/changes", params={"every": 0}, headers=EVENTS)
        assert problem(wrong) == (422, "invalid_request")
        with api.stream("GET", "/changes", params={"every": 1}, headers=EVENTS) as response:
            data = (line for line in response.iter_lines() if line.startswith("data: "))
            assert [next(data) for _ in range(2)] == ['data: {"files": 0}'] * 2
