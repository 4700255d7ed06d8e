"""The extension `logging`: a record for each event, and the handlers that records go to."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import NotIngestedError
from lorebind_config.namespace import tenant
from lorebind_knowledge import Extension
from lorebind_knowledge.events import Events
from lorebind_knowledge.extensions.logging import _RECORDS, EventLog
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.sources.folder.files import FileSource

from .bench import Bench
from .small_project import QUESTION, TEXTS, small_project

LOGGER = logging.getLogger("lorebind")


def _logging(**settings: Any) -> dict[str, Any]:
    return {"provider": "logging", **settings}


def _lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_every_hook_is_logged() -> None:
    """Every hook has a record."""
    hooks = {name for name, method in vars(Extension).items() if isfunction(method)}
    assert set(_RECORDS) == hooks


async def test_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is an object with the time, the event, its namespace and its counts."""
    root = list(logging.getLogger().handlers), logging.getLogger().level
    service = small_project(tmp_path, _logging(format="json"))
    docs = service.open("docs")
    with tenant("acme"):
        report = await ingest(docs.corpus())
        await docs.query(QUESTION)
        await service.close()
    whose = {"kb_id": "docs", "tenant": "acme", "project": "p", "scope": "project"}
    started, created, completed, searched = _lines(capsys)
    for line in (started, created, completed, searched):
        assert line["time"].endswith("+00:00")
        assert line["level"] == "info"
        assert line.items() >= whose.items()
    assert [started["event"], created["event"]] == ["ingest_started", "collection_created"]
    assert (
        completed.items()
        >= {
            "logger": "lorebind.ingest",
            "event": "ingest_completed",
            "run_id": report.run_id,
            "status": "completed",
            "documents_added": 2,
            "chunks_total": 2,
            "texts_embedded": 2,
            "seconds": report.seconds,
        }.items()
    )
    assert searched.items() >= {"logger": "lorebind.retrieval", "strategy": "hybrid"}.items()
    assert searched["matches"] >= 1
    assert searched["verdict"] in ("hit", "weak")
    assert (logging.getLogger().handlers, logging.getLogger().level) == root


async def test_levels(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Failures are errors; failed documents, and ingests that contain them, are warnings."""
    caplog.set_level(logging.DEBUG, "lorebind")
    bench.change(events=Events([EventLog()]))
    bench.write("a.md", "alpha")
    bench.write_bytes("b.md", b"\xff\xfe\xfa")
    with pytest.raises(NotIngestedError):
        await bench.ask("alpha")
    await bench.ingest()
    bench.change(sources=[FileSource("markdown_glob", ["none/*.md"], bench.root)])
    await bench.ingest()
    loud = [
        (record.levelname, record.event, getattr(record, "kind", ""))  # type: ignore[attr-defined]
        for record in caplog.records
        if record.levelno > logging.INFO
    ]
    assert loud == [
        ("ERROR", "retrieval_failed", "NotIngestedError"),
        ("WARNING", "ingest_chunked", "SourceError"),
        ("WARNING", "ingest_completed", ""),
        ("ERROR", "ingest_completed", ""),  # no source could be read
    ]


async def test_text_and_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`text` writes a line for people; `level` lets more or fewer records through."""
    service = small_project(tmp_path, _logging(format="text", level="debug"))
    await ingest(service.open("docs").corpus())
    lines = capsys.readouterr().err.splitlines()
    (embedder,) = [line for line in lines if "lorebind.embedder" in line and "documents" in line]
    assert 'DEBUG lorebind.embedder: embedder_called kb_id="docs" tenant="default"' in embedder
    await service.close()
    service = small_project(tmp_path, _logging(format="text", level="error"))
    await ingest(service.open("docs").corpus())
    await service.close()
    assert "ingest" not in capsys.readouterr().err


async def test_two_projects_have_one_handler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a project is loaded twice, each event is still one line, in the latest format."""
    before = len(LOGGER.handlers)
    services = [small_project(tmp_path, _logging(format=form)) for form in ("text", "json")]
    assert len(LOGGER.handlers) == before + 1
    await ingest(services[0].open("docs").corpus())
    assert [line["event"] for line in _lines(capsys)].count("ingest_completed") == 1
    for service in services:
        await service.close()


async def test_closing_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last project that closes restores the logger; the latest open one sets it."""
    before = list(LOGGER.handlers), LOGGER.level
    first = small_project(tmp_path, _logging(format="text", level="error"))
    second = small_project(tmp_path, _logging(format="json", level="debug"))
    await second.close()
    await second.close()
    assert (len(LOGGER.handlers), LOGGER.level) == (len(before[0]) + 1, logging.ERROR)
    await first.close()
    assert (LOGGER.handlers, LOGGER.level) == before
    LOGGER.error("unheard")
    assert "unheard" not in capsys.readouterr().err


@pytest.mark.enable_socket
async def test_it_formats_warnings_of_extensions_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`logging` formats warnings of extensions that are made before it, in declared order."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        prometheus = {"provider": "prometheus", "port": taken.getsockname()[1]}
        service = small_project(tmp_path, prometheus, _logging(format="json"))
    (line,) = _lines(capsys)
    assert line["message"].startswith("metrics are not served")
    kinds = [type(extension).__name__ for extension in service.events.extensions]
    assert kinds == ["Prometheus", "_WrittenLog"]
    await service.close()


async def test_a_program_that_logs_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `format`, only the program's own handlers get the records."""
    before = list(LOGGER.handlers), LOGGER.level
    caplog.set_level(logging.INFO)
    service = small_project(tmp_path, _logging())
    await ingest(service.open("docs").corpus())
    await service.close()
    assert (LOGGER.handlers, LOGGER.level) == before
    (record,) = [record for record in caplog.records if "ingest_completed" in record.getMessage()]
    assert (record.name, record.levelno) == ("lorebind.ingest", logging.INFO)
    assert vars(record)["documents_added"] == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("form", ["json", "text"])
async def test_texts_only_if_asked(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Questions, documents and error messages are logged only with `content`."""
    for content in (False, True):
        texts = {"content": True} if content else {}
        service = small_project(tmp_path, _logging(format=form, level="debug", **texts))
        with pytest.raises(NotIngestedError):
            await service.open("docs").query(QUESTION)
        await ingest(service.open("docs").corpus())
        await service.open("docs").query(QUESTION)
        await service.close()
        written = capsys.readouterr().err
        assert "retrieval_failed" in written
        for text in (*TEXTS, QUESTION, "has been ingested into"):
            assert (text in written) == content


async def test_other_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lorebind's own warnings are lines too, with the traceback if there is one."""

    class Broken(Extension):
        def ingest_started(self, event: Any) -> None:
            raise ValueError("a mistake")

    service = small_project(tmp_path, _logging(format="json"), extensions=[Broken()])
    await ingest(service.open("docs").corpus())
    await service.close()
    (line,) = [line for line in _lines(capsys) if "event" not in line]
    assert (line["level"], line["logger"]) == ("error", "lorebind.extensions")
    assert line["message"] == "extension Broken failed in ingest_started"
    assert "ValueError: a mistake" in line["exception"]


def test_importing_sets_nothing_up() -> None:
    """Importing sets no handler and no level on any logger."""
    code = (
        "import logging, lorebind_knowledge.service, lorebind_knowledge.extensions.logging\n"
        "names = ['', *(name for name in logging.root.manager.loggerDict if 'lore' in name)]\n"
        "loggers = [logging.getLogger(name or None) for name in names]\n"
        "assert len(loggers) > 3, names\n"
        "assert not any(log.handlers for log in loggers)\n"
        "assert not any(log.level for log in loggers[1:])\n"
        "assert not [name for name in names if name.startswith('lorebind_')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
