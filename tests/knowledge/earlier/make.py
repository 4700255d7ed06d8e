"""Writes the files next to it with the previous version.

It was the last version whose stores held texts and words.

Run `python -m tests.knowledge.earlier.make DSN` in the folder that contains `tests`, with a Python
in which commit baa1c8e is installed. DSN is that of an empty database with the extension `vector`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind import Project, tenant
from lorebind_knowledge.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Record
from tests.knowledge.earlier.project import (
    FOLDER,
    KNOWLEDGE_BASES,
    answers,
    answers_by_hand,
    build,
)

if TYPE_CHECKING:
    import psycopg

_TABLE = "knowledge_chunks"
_KEYS_BEFORE = "# Keys\n\nKeys are never rotated.\n"


def fill(root: Path, database: str, dsn: str = "") -> dict[str, Any]:
    """Ingest everything, and return the answers."""
    shutil.copytree(FOLDER / "docs", root / "docs")
    shutil.copy(FOLDER / "kept.py", root)
    today = (root / "docs" / "keys.md").read_text()
    (root / "docs" / "keys.md").write_text(_KEYS_BEFORE)
    with build(root, database, dsn=dsn) as project:
        ingest(project)
        (root / "docs" / "keys.md").write_text(today)
        ingest(project)
        if database in ("qdrant", "langchain"):
            return {}
        notes = project.collection("notes")
        about = {"title": "Tea", "heading": "Notes", "n": 1}
        notes.add_texts(["coffee", "green tea"], [{}, about], ids=["a", "b"])
        notes.add_texts(["black\0tea\x01", "water"], [{"n": "\0"}, {}], ids=["c", "d"])
        notes.add_texts(["notes about coffee"], ids=["a"])
        notes.delete(["d"])
        leave_unpublished(project)
        return {"ingested": answers(project), "by hand": answers_by_hand(project)}


def ingest(project: Project) -> None:
    for owner, workflow in KNOWLEDGE_BASES:
        with tenant(owner):
            assert project.ingest("docs", workflow=workflow).status == "completed"


def leave_unpublished(project: Project) -> None:
    """Leave behind what an interrupted ingest leaves."""
    index = IndexKey(Namespace("default", "earlier", "project", "docs"))
    vector = np.ones(32, np.float32)
    knowledge: Any = project.knowledge
    store, _ = knowledge.store("db")
    store.upsert([Record("0" * 32, index, "docs/keys.md", 9, "unpublished keys", vector, {})])


def dump(db: psycopg.Connection) -> str:
    """Return tables and rows as SQL, without the name of a schema."""
    from psycopg import sql

    catalog = import_module("lorebind_knowledge.catalog.postgres_database").catalog_sql()
    tables = import_module("lorebind_knowledge.stores.pgvector.schema").Tables(_TABLE)
    made = [*catalog.split(";\n")[:-1], *tables.sql()]
    lines = [line for line in made if not line.lower().startswith("insert")]
    for name in (
        *("catalog_version", "catalog_indexes", "catalog_documents", "catalog_runs"),
        *("catalog_embeddings", tables.version, tables.indexes, tables.docs, tables.rows),
    ):
        with db.cursor() as cursor:
            for row in cursor.execute(f"select * from {name} order by 1").fetchall():
                values = sql.SQL(", ").join(map(sql.Literal, row)).as_string(db)
                lines.append(f"insert into {name} overriding system value values ({values})")
    lines.append(f"select setval('\"{_TABLE}_seq\"', 1000)")
    return "".join(f"{line};\n" for line in lines)


def keep_sqlite(file: Path, to: Path) -> None:
    """Copy a database into one file without a journal, as small as possible."""
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma journal_mode = delete")
        db.execute("vacuum")
    to.parent.mkdir(exist_ok=True)
    shutil.copy(file, to)


def main(dsn: str) -> None:
    import psycopg
    from psycopg.types.json import set_json_loads

    given: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for database in ("sqlite", "qdrant", "langchain"):
            given[database] = fill(Path(folder, database), database)
            for file in Path(folder, database, ".lorebind").glob("*.db"):
                keep_sqlite(file, FOLDER / database / file.name)
        held = shutil.ignore_patterns(".lock")
        qdrant = Path(folder, "qdrant", ".lorebind", "qdrant")
        shutil.copytree(qdrant, FOLDER / "qdrant" / "qdrant", ignore=held)
        shutil.copy(Path(folder, "langchain/.lorebind/kept.json"), FOLDER / "langchain")
        given["postgres"] = fill(Path(folder, "postgres"), "postgres", dsn)
    with psycopg.connect(dsn) as db:
        set_json_loads(lambda data: data.decode(), db)  # keep JSON byte for byte
        (FOLDER / "postgres.sql").write_text(dump(db))
    assert given["sqlite"] == given["postgres"]
    (FOLDER / "answers.json").write_text(json.dumps(given["sqlite"], indent=0))


main(*sys.argv[1:])
