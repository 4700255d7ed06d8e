"""A project with a slow embedder and twenty documents of five passages in two versions."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lorebind import Project
from lorebind_config.errors import StoreError
from lorebind_knowledge.catalog.chunks import State
from lorebind_knowledge.catalog.indexes import IndexEntry
from lorebind_knowledge.index.index import Index
from lorebind_knowledge.plumbing.bridge import finish
from tests.acceptance.helpers import served
from tests.bindings.helpers import write

BATCH = 5
DOCUMENTS, PASSAGES = 20, 5
URIS = [f"docs/{number:02}.md" for number in range(DOCUMENTS + 3)]


def project_of(embedder: str, *, batch: int, size: int) -> str:
    """Return a project file with the placeholders VECTOR_DB, called `db`, and CALLS_AT_ONCE."""
    return f"""\
name: handbook
embedders:
  - id: ours
    provider: langchain
    class: "{embedder}"
    batch_size: {batch}
    max_concurrent: CALLS_AT_ONCE
vector_dbs:
  - VECTOR_DB
knowledge_bases:
  - id: docs
    embedder: ours
    vector_db: db
    sources: [{{ type: markdown_glob, path: "docs/*.md" }}]
    chunking: {{ size: {size}, overlap: 0 }}
    preprocess: {{ dedupe: false }}
"""


PROJECT = project_of("tests.app.slow_embedder:Slow", batch=BATCH, size=120)
PGVECTOR = '{ id: db, type: pgvector, config: { dsn: "{{ .env.PG_DSN }}" } }'
SQLITE = "{ id: db, type: sqlite }"
MEMORY = "{ id: db, type: memory }"

_PAUSE = 0.05
"""Seconds that a reader pauses, so that other processes can run."""

Served = dict[str, list[tuple[str, str]]]
"""The ids and texts of the passages of each document, in their order."""


def document(number: int, version: str) -> str:
    """Return a text of five passages; the last one is the same in all versions."""
    return "\n\n".join(
        f"passage {part} of document {number} as of {which}, {f'word{number}x{part} ' * 6}"
        for part, which in enumerate([version] * (PASSAGES - 1) + ["ever"])
    )


MONDAY = {uri: document(number, "monday") for number, uri in enumerate(URIS[:-3])}
FRIDAY = {
    uri: document(number, "monday" if number % 10 == 9 else "friday")
    for number, uri in enumerate(URIS)
    if number > 2
}
"""Three documents are removed, three are new, one of ten is unchanged, the others are edited."""


def write_project(root: Path, vector_db: str, *, calls: int = 2) -> Path:
    """Write a project with Monday's documents."""
    project = PROJECT.replace("VECTOR_DB", vector_db).replace("CALLS_AT_ONCE", str(calls))
    return write(root, MONDAY | {"lorebind.yaml": project})


def change(root: Path, after: Mapping[str, str] = FRIDAY) -> None:
    """Replace the documents with these."""
    for uri in URIS:
        (root / uri).unlink(missing_ok=True)
    write(root, dict(after))


def what_is_served(project: Project) -> Served:
    by_uri = served(project, "docs", URIS)
    return {uri: [(match.id, match.text) for match in matches] for uri, matches in by_uri.items()}


def fresh(folder: Path, documents: Mapping[str, str]) -> Served:
    """Return what a new index of these documents serves."""
    root = write_project(folder, MEMORY)
    change(root, documents)
    with Project.load(root) as project:
        assert project.ingest("docs").status == "completed"
        return what_is_served(project)


def entry_of(index: Index, project: Project) -> IndexEntry:
    kb = project.knowledge.open("docs").kb
    entry = index.catalog.ledger.index(kb.namespace, "active")
    assert entry is not None
    return entry


def check_agreement(project: Project, expected: Served) -> tuple[State, int]:
    """Check that searches, ledger and store agree; return the index's state and its vectors."""
    assert what_is_served(project) == expected
    index = project.knowledge.index("db")
    entry = entry_of(index, project)
    ledger = index.catalog.ledger.documents(entry.key)
    assert {uri: entry.chunk_count for uri, entry in ledger.items()} == {
        uri: len(passages) for uri, passages in expected.items()
    }
    assert {entry.state for entry in ledger.values()} == {"ready"}
    live = sum(map(len, expected.values()))
    assert index.compare(entry, deep=True)[:2] == (live, [])
    namespace = entry.key.namespace
    state = index.read(namespace, lambda view: view.state)
    assert state.live == live
    there = finish(index.store.count(entry.space))
    return state, state.entered if there is None else there


def read() -> None:
    """Search repeatedly and report what was wrong: `lorebind.py STATES LAST [outages]`.

    STATES is a file with two states of the documents; each document has to be in one of them. The
    reader stops when the file LAST exists. With `outages`, a search may fail for want of the
    database. It prints JSON.
    """
    states: list[Any] = json.loads(Path(sys.argv[1]).read_text())
    before, after = (
        {uri: list(map(tuple, matches)) for uri, matches in state.items()} for state in states
    )
    last = Path(sys.argv[2])
    answers, faults = 0, []
    with Project.load() as project:
        for some in _in_turn():
            try:
                by_uri = served(project, "docs", some)
            except Exception as error:
                if isinstance(error, StoreError) and sys.argv[3:] == ["outages"]:
                    time.sleep(_PAUSE)
                    continue
                faults.append(f"{type(error).__name__}: {error}")
                by_uri = {}
                if len(faults) > 9:
                    break
            else:
                for uri in some:
                    passages = [(match.id, match.text) for match in by_uri.get(uri, [])]
                    if passages not in (before.get(uri, []), after.get(uri, [])):
                        faults.append(f"{uri}: {passages}")
            answers += 1
            if last.exists():
                break
            time.sleep(_PAUSE)
    print(json.dumps({"answers": answers, "faults": faults[:10]}))


def _in_turn() -> Iterator[list[str]]:
    while True:
        for start in range(0, len(URIS), 8):
            yield URIS[start : start + 8]
