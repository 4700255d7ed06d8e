"""The ingests of other processes, and past ones, on the command line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lorebind import Project
from lorebind.cli import ingesting, progress
from lorebind.cli.options import Output
from lorebind_knowledge.catalog.catalog import Catalog

from .helpers import Cli

COUNTS = {"documents": 4, "documents_read": 2, "chunks": 9, "chunks_embedded": 5}
LINE = "2 of 4 documents read, 5 of 9 chunks embedded"


@contextmanager
def running(project: Project) -> Iterator[tuple[Catalog, str]]:
    """Run an ingest of `docs` that has got so far within the block, and never ends."""
    handle = project.knowledge_base("docs").handle
    catalog = handle.index.catalog
    with catalog.lease(handle.namespace) as lease:
        run_id = catalog.ledger.start_run(lease, "upsert")
        catalog.runs.store_progress(lease, run_id, COUNTS)
        yield catalog, run_id


def finding(cli: Cli) -> str:
    parts = json.loads(cli("doctor", "-o", "json").out)["findings"]
    detail: str = next(part["detail"] for part in parts if part["part"] == "knowledge base docs")
    return detail


def test_runs_are_listed(ready_cli: Cli) -> None:
    """`knowledge runs` lists the last run of each knowledge base, or all runs of one."""
    assert ready_cli("ingest", "docs").code == 0
    every = ready_cli("knowledge", "runs").out.splitlines()
    assert [line.split()[0] for line in every[2:]] == ["docs", "rules"]
    ours = ready_cli("knowledge", "runs", "docs").out.splitlines()
    assert [line.split()[0] for line in ours[2:]] == ["docs", "docs"]
    assert "2 unchanged" in ours[2]
    assert "2 added" in ours[3]
    assert len(ready_cli("knowledge", "runs", "docs", "--limit", "1").out.splitlines()) == 3
    (run,) = json.loads(ready_cli("knowledge", "runs", "docs", "--limit", "1", "-o", "json").out)[
        "runs"
    ]
    assert (run["kb_id"], run["status"]) == ("docs", "completed")
    assert run["progress"] == {
        "documents": 2,
        "documents_read": 2,
        "chunks": 0,
        "chunks_embedded": 0,
    }
    assert ready_cli("knowledge", "runs", "nope").code == 2


def test_a_run_of_another_process(cli: Cli) -> None:
    """`knowledge runs` and `doctor` show how far it is, and `doctor` whether it goes on."""
    with Project.load(cli.root) as project:
        with running(project) as (_, run_id):
            line = cli("knowledge", "runs", "docs").out.splitlines()[2]
            assert line.split()[1:3] == [run_id, "running"]
            assert line.endswith(LINE)
            assert finding(cli) == f"nothing is ingested yet; an ingest is running: {LINE}"
        command = "lorebind knowledge ingest docs"
        interrupted = f"its last ingest was interrupted: {LINE}; continue it with: {command}"
        assert finding(cli) == f"nothing is ingested yet; {interrupted}"
    assert cli("ingest", "docs").code == 0
    assert finding(cli) == "2 documents, 2 chunks, dimension 256"


def test_a_command_that_waits(
    cli: Cli, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that waits for the ingest of another process shows how far that is."""
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0)
    monkeypatch.setattr(ingesting, "SECONDS", 0.01)
    printed = threading.Event()
    print_line = progress.print_line

    def watched(line: str, *, stderr: bool = False) -> None:
        print_line(line, stderr=stderr)
        printed.set()

    monkeypatch.setattr(progress, "print_line", watched)
    with Project.load(cli.root) as other, Project.load(cli.root) as project:
        docs = project.knowledge_base("docs")

        def ingest() -> None:
            ingesting.ingest_with_bars(docs, project.events, Output.json, wait=True)

        waiting = threading.Thread(target=ingest)
        with running(other):
            waiting.start()
            assert printed.wait(30)
        waiting.join(30)
        assert not waiting.is_alive()
        assert docs.stats().chunks == 2
    assert f"progress: {LINE}" in capsys.readouterr().err
