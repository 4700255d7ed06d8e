"""Packing and unpacking a large knowledge base, against an ingest with all vectors in the cache.

    python benchmarks/packing.py [--passages N] [--small N] [--sparse] [--dsn DSN]

A document has ten passages of 80 words, drawn from 50,000 with frequencies of 1 / rank (Zipf's
law). The embedder is the hashing one, with 384 dimensions, and `--sparse` adds terms.

`copy`: an ingest of the same documents into another knowledge base of the same vector database,
which finds every vector in the embedding cache. `pack` and `unpack`: to a file, and from it into
another database, each in a process of its own. `memory`: the most memory that this process used,
here and with `--small` passages. `carried`: the time of both, as a share of that of `copy` in the
database that it is carried to. `same`: whether 40 questions then have the same answers, scores and
ids as in the first database.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from pgvector import database

from lorebind import Project

DSN, PGVECTOR = "PACKING_DSN", "middle"
WORDS, PER_PASSAGE, PER_DOCUMENT, QUESTIONS, DIMENSION = 50_000, 80, 10, 40, 384


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--sparse", action="store_true", help="add terms")
    parser.add_argument("--dsn", help="a writable database with pgvector; default: start a server")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a run takes minutes
    if arguments.step:
        step(*arguments.step)
        return
    with ExitStack() as stack:
        here = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ[DSN], _ = stack.enter_context(database(arguments.dsn))
        for passages in (arguments.small, arguments.passages):
            measure(here / str(passages), passages, sparse=arguments.sparse)


def measure(folder: Path, passages: int, *, sparse: bool) -> None:
    print(f"{passages} passages{', with terms' if sparse else ''}:")
    questions = write(folder / "docs", passages // PER_DOCUMENT)
    first, middle, back = (
        declare(folder, name, sparse=sparse) for name in ("first", PGVECTOR, "back")
    )
    copied = {}
    for declared in (middle, first):  # the first database keeps its knowledge base
        kind = declared["vector_dbs"][0]["type"]
        with Project.build(declared, root=folder) as project:
            timed(f"ingest {kind}", lambda: project.ingest("docs"))
            copied[kind] = timed(f"copy {kind}", lambda: project.ingest("copy"))
            project.knowledge_base("copy").delete()
            expected = answers(project, questions)
            passages = project.stats("docs").chunks
            if declared is middle:
                project.knowledge_base("docs").delete()
    for source, target in ((first, middle), (middle, back)):
        spent = 0.0
        for action, declared in (("pack", source), ("unpack", target)):
            kind = declared["vector_dbs"][0]["type"]
            seconds, memory, embedded = in_process(action, declared, folder)
            spent += seconds
            speed = f"{passages / seconds:,.0f} passages a second"
            used = f"memory {memory} MB, {embedded} texts embedded"
            print(f"  {action} {kind}: {seconds:.1f} s, {speed}, {used}")
        with Project.build(target, root=folder) as project:
            same = answers(project, questions) == expected
        print(f"  carried to {kind}: {spent / copied[kind]:.2f} of copy, same: {same}")
    size = (folder / "kb.lorebind").stat().st_size
    print(f"  file: {size / 1e6:.0f} MB, {size / passages:,.0f} bytes a passage")


def in_process(action: str, declared: dict[str, Any], folder: Path) -> tuple[float, int, int]:
    """Return the seconds, the peak of memory in MB, and the number of texts embedded."""
    command = [sys.executable, __file__, "--step", action, json.dumps(declared), str(folder)]
    seconds, memory, embedded = json.loads(subprocess.check_output(command))
    return seconds, memory, embedded


def step(action: str, declared: str, folder: str) -> None:
    path = Path(folder, "kb.lorebind")
    with Project.build(json.loads(declared), root=folder) as project:
        kb = project.knowledge_base("docs")
        kb.stats()  # opens the databases
        began = time.perf_counter()
        report: Any = kb.pack(path) if action == "pack" else kb.unpack(path)
        seconds = time.perf_counter() - began
    # Not from `getrusage`, which counts the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    memory = int(status.split("VmHWM:")[1].split()[0]) // 1024
    print(json.dumps([seconds, memory, getattr(report, "texts_embedded", 0)]))


def declare(folder: Path, name: str, *, sparse: bool) -> dict[str, Any]:
    kb = {
        "embedder": "words",
        "sparse": "local" if sparse else "off",
        "chunking": {"size": 600, "overlap": 0},
        "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
    }
    vector_db: dict[str, Any] = {"type": "sqlite", "config": {"path": f"{name}.db"}}
    if name == PGVECTOR:
        config = {"dsn": f"{{{{ .env.{DSN} }}}}", "table": f"packing_{folder.name}"}
        vector_db = {"type": "pgvector", "config": config}
    return {
        "name": f"packing-{folder.name}",
        "embedders": [{"id": "words", "provider": "hashing", "config": {"dimension": DIMENSION}}],
        "vector_dbs": [{"id": name, **vector_db}],
        "knowledge_bases": [{"id": "docs", **kb}, {"id": "copy", **kb}],
    }


def write(folder: Path, documents: int) -> list[str]:
    """Write the documents, and return questions."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, WORDS + 1)
    words = np.array([f"w{number:x}" for number in range(WORDS)])
    questions = []
    for number in range(documents):
        drawn = rng.choice(words, (PER_DOCUMENT, PER_PASSAGE), p=shares / shares.sum())
        text = "\n\n".join(" ".join(passage) for passage in drawn)
        (folder / f"{number}.md").write_text(f"# {number}\n\n{text}\n")
        if number % max(1, documents // QUESTIONS) == 0:
            questions.append(" ".join(drawn[0][:8]))
    return questions


def answers(project: Project, questions: list[str]) -> list[Any]:
    return [
        (match.id, match.score, match.relevance, dict(match.scores), match.text)
        for question in questions
        for match in project.query("docs", question, top_k=10).matches
    ]


def timed(what: str, work: Any) -> float:
    began = time.perf_counter()
    report = work()
    seconds = time.perf_counter() - began
    print(f"  {what}: {seconds:.1f} s, {report.texts_embedded} texts embedded")
    return seconds


if __name__ == "__main__":
    main()
