"""Several processes with one project, and one that is interrupted: no data is lost or mixed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.bindings.helpers import write

from .forked_python import ForkedPython
from .helpers import LOREBIND
from .slow_embedder import calls_in

BATCH = 2
DOCUMENTS = 8
PARAGRAPHS = 3

PROJECT = f"""\
name: slow
embedders:
  - id: slow
    provider: langchain
    class: "slow_embedder:Slow"
    batch_size: {BATCH}
    max_concurrent: 1
knowledge_bases:
  - id: docs
    sources: [{{ type: markdown_glob, path: "docs/*.md" }}]
    chunking: {{ size: 120, overlap: 0 }}
    retrieval: {{ top_k: 50 }}
"""

ASKING = """\
import json, sys, time
from pathlib import Path
from lorebind import Project

looks, found, last = Path(sys.argv[1]), [], False
with Project.load() as project:
    while not last:
        last = Path("done").exists()
        seen = {}
        for match in project.query("docs", "anything at all"):
            number, version = match.text.split()[1:3]
            seen.setdefault(match.metadata["uri"], []).append(version + number)
        if seen not in found:
            found.append(seen)
            with looks.open("a") as file:
                file.write(".")
        time.sleep(0.005)
print(json.dumps(found))
"""


def documents(version: str) -> dict[str, str]:
    """Return documents of three chunks with their number and the document's version."""
    return {
        f"docs/{name}.md": "\n\n".join(
            f"paragraph {number} {version} of document {name}, {'long enough ' * 6}"
            for number in range(PARAGRAPHS)
        )
        for name in range(DOCUMENTS)
    }


class Room:
    """A project folder with a slow embedder, and the processes that use it."""

    def __init__(self, root: Path, forked: ForkedPython) -> None:
        self.root = root
        self._forked = forked
        self.log = root / "embedded.jsonl"
        self.started: list[subprocess.Popen[str]] = []
        write(root, documents("one") | {"lorebind.yaml": PROJECT})

    def start(self, *command: str, seconds: float = 0.0, gate: str = "") -> subprocess.Popen[str]:
        here = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
        variables = {
            "PYTHONPATH": os.pathsep.join(filter(None, here)),
            "SLOW_LOG": str(self.log),
            "SLOW_SECONDS": str(seconds),
            "SLOW_GATE": gate,
        }
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def lorebind(self, *arguments: str, **pace: Any) -> subprocess.Popen[str]:
        return self.start(str(self._forked.commands / "lorebind"), *arguments, **pace)

    def python(self, *arguments: str) -> subprocess.Popen[str]:
        return self.start(str(self._forked.commands / "python"), *arguments)

    def embedded(self) -> list[list[str]]:
        """Return the texts of each call so far."""
        return calls_in(self.log)

    def ready(self) -> int:
        """Return the number of ready documents in the index that searches use."""
        path = self.root / ".lorebind" / "lorebind.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            counted = db.execute(
                "select count(*) from catalog_documents as d join catalog_indexes as i"
                " on (i.tenant, i.project, i.scope, i.kb, i.number)"
                " = (d.tenant, d.project, d.scope, d.kb, d.number)"
                " where d.state = 'ready' and i.state = 'active'"
            )
            (count,) = counted.fetchone()
        return int(count)

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def room(tmp_path: Path, forked: ForkedPython) -> Iterator[Room]:
    room = Room(tmp_path, forked)
    yield room
    room.end()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def result(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_an_interrupted_ingest_is_completed_by_the_next(room: Room) -> None:
    """Ctrl-C exits with 130 and a message; finished work is kept, and not repeated."""
    first = room.start(str(LOREBIND), "knowledge", "ingest", "docs", seconds=1)
    wait_until(lambda: len(room.embedded()) >= 3 and room.ready() >= 1, first)
    first.send_signal(signal.SIGINT)
    code, out, err = result(first)
    assert (code, "Traceback" in out + err) == (130, False)
    assert err == "lorebind: interrupted; finished work is kept, and the next run completes it\n"
    before = room.embedded()
    total = DOCUMENTS * PARAGRAPHS
    assert sum(map(len, before)) < total

    code, out, err = result(room.lorebind("knowledge", "list", "-o", "json"))
    (listed,) = json.loads(out)["knowledge_bases"]
    stats = listed["stats"]
    assert stats["last_run"]["status"] == "cancelled"
    assert 1 <= stats["documents"]["ready"] < DOCUMENTS
    assert stats["chunks"] == stats["documents"]["ready"] * PARAGRAPHS

    code, out, err = result(room.lorebind("knowledge", "ingest", "docs", "-o", "json"))
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["chunks"]["total"] == total
    assert report["documents"]["unchanged"] == stats["documents"]["ready"]
    embedded = Counter(text for texts in room.embedded() for text in texts)
    assert len(embedded) == total
    assert sum(embedded.values()) <= total + BATCH  # the interrupted call is repeated
    assert report["texts_embedded"] == sum(map(len, room.embedded()[len(before) :]))


def test_queries_see_whole_documents_while_an_ingest_runs(room: Room) -> None:
    """Other processes may query during an ingest: each document is either old or new as a whole."""
    assert result(room.lorebind("knowledge", "ingest", "docs"))[0] == 0
    write(room.root, documents("two"))
    asking = {room.root / name: room.python("-c", ASKING, name) for name in ("one", "two")}
    for looks, process in asking.items():
        wait_until(looks.exists, process)
    calls = len(room.embedded())
    (room.root / "calls").write_bytes(b"." * (calls + 5))
    ingest = room.lorebind("knowledge", "ingest", "docs", gate="calls")
    for looks, process in asking.items():  # they search while the sixth call is waiting
        wait_until(lambda looks=looks: looks.stat().st_size > 1, process)  # type: ignore[misc]
    (room.root / "calls").write_bytes(b"." * 99)
    code, out, err = result(ingest)
    assert (code, err) == (0, ""), out
    (room.root / "done").touch()

    whole = [{f"{version}{n}" for n in range(PARAGRAPHS)} for version in ("one", "two")]
    states = set()
    for process in asking.values():
        code, out, err = result(process)
        assert (code, err) == (0, "")
        for seen in json.loads(out):
            assert len(seen) == DOCUMENTS
            for chunks in seen.values():
                assert len(chunks) == PARAGRAPHS
                assert set(chunks) in whole
            states.add(sum(set(chunks) == whole[1] for chunks in seen.values()))
    assert {0, DOCUMENTS} <= states
    assert len(states) > 2


def test_a_second_ingest_is_refused_by_name(room: Room) -> None:
    """One of two concurrent ingests of a knowledge base runs; the other reports why it does not."""
    first = room.lorebind("knowledge", "ingest", "docs", gate="calls")
    wait_until(lambda: len(room.embedded()) >= 1, first)
    code, _, err = result(room.lorebind("knowledge", "ingest", "docs"))
    assert code == 1
    assert err == (
        "lorebind: another ingest of knowledge base 'docs' is under way; wait for it to end\n"
    )
    (room.root / "calls").write_bytes(b"." * 99)
    code, out, err = result(first)
    assert (code, err) == (0, "")
    assert "docs: completed" in out
    assert sum(map(len, room.embedded())) == DOCUMENTS * PARAGRAPHS
