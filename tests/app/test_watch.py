"""`lorebind knowledge watch`: changes are ingested, and failures do not stop it."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from urllib.request import urlopen

import pytest

from lorebind.cli.options import Output
from lorebind.cli.watch import _Rounds
from lorebind_knowledge.ingest.report import IngestPlan, SourceReport, Unlisted

from .forked_python import CONSTANTS, Forked, ForkedPython
from .helpers import PROJECT, Cli

_LONGEST_WAIT = 60
OFTEN = {"lorebind.cli.watch:_PAUSE_SECONDS": 0.2}
"""How often a server that is away is called again."""


class Watching:
    """A watching process and its output."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        self.seen: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        if self.process.stdout is None:
            return
        with self.process.stdout as lines:
            for line in lines:
                self._lines.put(line)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def waiting(self) -> list[str]:
        """Return the unread lines."""
        return list(self._lines.queue)

    def says(self, text: str) -> str:
        """Return the next line that contains the text."""
        while True:
            line = self._lines.get(timeout=_LONGEST_WAIT)
            self.seen.append(line)
            if text in line:
                return line


def test_a_folder_that_cannot_be_listed_is_news() -> None:
    """The command ingests, and so reports once, if a folder became unreadable and nothing else."""
    rounds = _Rounds("docs", Output.table)
    source = SourceReport("file_glob:**/*", "ok", 1)

    def has_news() -> bool:
        return rounds._has_news(("docs", None), IngestPlan("docs", sources=[source]), ())

    assert not has_news()
    source.unlisted.append(Unlisted("shut/", "Permission denied"))
    assert [has_news(), has_news()] == [True, False]


@contextmanager
def watching(
    forked: ForkedPython, root: Path, *options: str, log: TextIO | None = None
) -> Iterator[Watching]:
    process = Forked(
        [str(forked.commands / "lorebind"), "knowledge", "watch", *options],
        cwd=root,
        env={**os.environ, "PYTHONUNBUFFERED": "1", CONSTANTS: json.dumps(OFTEN)},
        stdout=log or subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watch = Watching(process)
    try:
        yield watch
    finally:
        watch.end()


@pytest.fixture
def change(empty_cli: Cli) -> Callable[[str, str], None]:
    def write(name: str, text: str) -> None:
        empty_cli.write({name: text})

    return write


def test_changes_are_ingested(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """New, changed and removed files, and a project file after an invalid one, are ingested."""
    change("docs/keys.md", "# Keys\n\nRotate the keys.\n")
    change("rules/a.md", "# Access\n")
    change("lorebind.yaml", PROJECT)
    with watching(forked, empty_cli.root) as watch:
        watch.says("Watching ")
        watch.says("docs: completed")
        watch.says("rules: completed")

        change("docs/bills.md", "# Bills\n\nBills are sent by mail.\n")
        assert "2 documents (1 new, 1 unchanged)" in watch.says("Plan: ")
        watch.says("docs: completed")

        change("lorebind.yaml", f"{PROJECT}\nnonsense: true\n")
        assert "the previous declarations stay in effect" in watch.says("nonsense")
        change("docs/more.txt", "Lunch is at noon.\n")
        change("lorebind.yaml", PROJECT.replace("docs/**/*.md", "docs/*.{md,txt}"))
        assert "3 documents (1 new, 2 unchanged)" in watch.says("Plan: ")
        watch.says("docs: completed")

        (empty_cli.root / "docs/keys.md").unlink()
        assert "1 removed" in watch.says("Plan: ")
        watch.says("docs: completed")
        assert not [line for line in watch.seen if "rules: completed" in line][
            1:
        ]  # nothing there changed

        # Hidden files cause no ingest, even next to changed ones.
        change("docs/.hidden/x.md", "# Hidden\n")
        time.sleep(1)  # three times as long as the command waits for further changes
        assert watch.waiting() == []
        change("docs/last.md", "# Last\n")
        assert "3 documents (1 new, 2 unchanged)" in watch.says("Plan: ")
        watch.says("docs: completed")
        watch.process.send_signal(signal.SIGINT)
        watch.says("interrupted; finished work is kept")
        assert watch.process.wait(_LONGEST_WAIT) == 130


def test_what_is_ignored_and_what_is_hidden(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """Changes of `.gitignore` and in a hidden folder that a pattern names take effect."""
    for name in ("keys", "more", "last"):
        change(f"docs/{name}.md", f"# {name}\n\nText of {name}.\n")
    with_notes = 'paths: ["docs/**/*.md", "docs/.notes/*.md"]'
    change("lorebind.yaml", PROJECT.replace('path: "docs/**/*.md"', with_notes))
    with watching(forked, empty_cli.root, "docs") as watch:
        watch.says("docs: completed")
        change(".gitignore", "more.md\n")
        assert "1 removed" in watch.says("Plan: ")
        watch.says("docs: completed")
        change("docs/.notes/a.md", "# A\n")
        assert "1 new" in watch.says("Plan: ")


@pytest.mark.enable_socket
def test_metrics_go_on(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """After a change of the project, even to one that cannot be opened, its port is served."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    metrics = f"extensions: [{{ provider: prometheus, port: {port} }}]\n"
    change("docs/keys.md", "# Keys\n\nRotate the keys.\n")
    change("lorebind.yaml", PROJECT + metrics)
    with watching(forked, empty_cli.root, "docs") as watch:
        watch.says("docs: completed")
        change("lorebind.yaml", PROJECT.replace("How we work", "How it is done") + metrics)
        change("docs/bills.md", "# Bills\n")
        watch.says("docs: completed")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert b'knowledge_ingests_total{kb_id="docs"' in answer.read()
        broken = "[{ provider: python, class: nowhere:Nothing }, "
        change("lorebind.yaml", PROJECT + metrics.replace("[", broken))
        assert "the previous declarations stay in effect" in watch.says("nowhere")
        change("docs/more.md", "# More\n")
        watch.says("docs: completed")
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert b'knowledge_ingests_total{kb_id="docs"' in answer.read()


def test_what_fails_is_survived(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """A refused ingest is reported, and the next change is ingested."""
    for name in "abc":
        change(f"docs/{name}.md", f"# {name}\n\nText of {name}.\n")
    change("lorebind.yaml", PROJECT)
    with watching(forked, empty_cli.root, "docs", "-o", "json") as watch:
        watch.says('"status": "completed"')
        for name in "ab":
            (empty_cli.root / f"docs/{name}.md").unlink()
        watch.says("2 of 3 documents of 'docs' are no longer in its sources")
        change("docs/a.md", "# a\n\nAnother text.\n")
        watch.says('"updated": 1')


def test_an_unknown_knowledge_base_is_told_at_once(cli: Cli) -> None:
    """An unknown knowledge base is refused immediately."""
    done = cli("knowledge", "watch", "dosc")
    assert done.code == 2
    assert "'docs'" in done.err


def test_the_web_is_asked_again(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """With --every, an ingest runs after this many minutes, even if no file changed."""
    change("elsewhere/a.md", "# One\n")
    outside = "{ type: cloud_storage, provider: file, bucket: ../shelf }"
    shelf = empty_cli.root.parent / "shelf"
    shelf.mkdir()
    (shelf / "a.md").write_text("# One\n")
    change("lorebind.yaml", f"name: x\nknowledge_bases: [{{ id: web, sources: [{outside}] }}]\n")
    with watching(forked, empty_cli.root, "--every", "0.1") as watch:
        watch.says("web: completed")
        (shelf / "b.md").write_text("# Two\n")
        assert "1 new" in watch.says("Plan: ")


def test_a_reported_failure_is_no_news(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """A failure is reported once, and again after a change of the file or the project."""
    change("docs/a.md", "# A\n\nText of a.\n")
    change("docs/bad.pdf", "%PDF-1.7\n")
    sources = "[{ type: file_glob, path: 'docs/*' }, { type: file_glob, path: 'nowhere/*' }]"
    project = f"name: x\nknowledge_bases: [{{ id: docs, sources: {sources} }}]\n"
    change("lorebind.yaml", project)
    with watching(forked, empty_cli.root) as watch:
        assert "1 unreadable" in watch.says("Plan: ")
        assert "(attempt 1)" in watch.says("failed document docs/bad.pdf")
        change("unrelated.bin", "1")
        time.sleep(2)  # longer than the command waits for further changes
        assert not [line for line in watch.waiting() if "Plan: " in line]
        change("docs/bad.pdf", "%PDF-1.8\n")
        assert "(attempt 2)" in watch.says("failed document docs/bad.pdf")
        change("lorebind.yaml", f"# changed\n{project}")
        assert "(attempt 3)" in watch.says("failed document docs/bad.pdf")


def test_its_own_log_is_no_change(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """The command's own log starts no ingest, even of a document that is always refused."""
    for name in "abc":
        change(f"docs/{name}.md", f"# {name}\n\nText of {name}.\n")
    change("lorebind.yaml", PROJECT)
    log = empty_cli.root / "watch.log"
    with log.open("w") as written, watching(forked, empty_cli.root, "docs", log=written):
        _until(lambda: "docs: completed" in log.read_text())
        for name in "ab":
            (empty_cli.root / f"docs/{name}.md").unlink()
        _until(lambda: "no longer in its sources" in log.read_text())
        time.sleep(2)
        assert log.read_text().count("no longer in its sources") == 1


def test_a_renamed_knowledge_base_is_waited_for(
    empty_cli: Cli, change: Callable[[str, str], None], forked: ForkedPython
) -> None:
    """A removed declaration is reported; the knowledge base is ingested when declared again."""
    change("docs/a.md", "# A\n\nText of a.\n")
    change("lorebind.yaml", PROJECT)
    with watching(forked, empty_cli.root, "docs") as watch:
        watch.says("docs: completed")
        change("lorebind.yaml", PROJECT.replace("id: docs", "id: papers"))
        watch.says("'docs'")
        change("docs/b.md", "# B\n\nText of b.\n")
        change("lorebind.yaml", PROJECT)
        assert "1 new" in watch.says("Plan: ")


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _LONGEST_WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
