"""Vector databases that lose vectors: no answer is empty, and an ingest repairs the index."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from sqlalchemy.engine import make_url

from lorebind import Project
from lorebind_config.errors import StoreError
from tests.bindings.helpers import write

from .trials import Case, Trials

pytestmark = pytest.mark.enable_socket

DOCUMENTS, PASSAGES = 6, 5
COUNT = DOCUMENTS * PASSAGES
STRATEGIES = ("similarity", "hybrid", "mmr")
TABLE = "knowledge_chunks_vectors"
KEPT: dict[str, Any] = {}


class Kept(InMemoryVectorStore):
    """Stores its documents in `KEPT`, which outlives the object."""

    def __init__(self, embedding: Embeddings) -> None:
        super().__init__(embedding)
        self.store = KEPT


def vectors(embedding: Embeddings) -> Kept:
    """Return a store that is not known to compare all vectors."""
    return Kept(embedding)


# Each function deletes this many vectors, or all of them.


def lose_rows(case: random.Random, folder: Path, dsn: str, count: int) -> None:
    with closing(sqlite3.connect(folder / ".lorebind" / "lorebind.db")) as db, db:
        there = db.execute("select row from store_vectors order by row").fetchall()
        db.executemany("delete from store_vectors where row = ?", case.sample(there, count))


def lose_in_postgres(case: random.Random, folder: Path, dsn: str, count: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        if count == COUNT:
            rename = f"alter table {TABLE} rename to elsewhere"
            db.execute(case.choice([rename, f"drop table {TABLE}", f"truncate {TABLE}"]))
            return
        there = db.execute(f"select number from {TABLE} order by number").fetchall()
        gone = [number for (number,) in case.sample(there, count)]
        db.execute(f"delete from {TABLE} where number = any(%s)", [gone])


def lose_points(case: random.Random, folder: Path, dsn: str, count: int) -> None:
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(folder / "qdrant"))
    (collection,) = client.get_collections().collections
    if count == COUNT and case.choice([True, False]):
        client.delete_collection(collection.name)
    else:
        points, _ = client.scroll(collection.name, limit=COUNT)
        gone = case.sample(sorted(point.id for point in points), count)
        client.delete(collection.name, gone)
    client.close()


def lose_documents(case: random.Random, folder: Path, dsn: str, count: int) -> None:
    for name in case.sample(sorted(KEPT), count):
        del KEPT[name]


def lose_in_table(case: random.Random, folder: Path, dsn: str, count: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as db:
        there = db.execute("select langchain_id from chunks order by langchain_id").fetchall()
        gone = [name for (name,) in case.sample(there, count)]
        db.execute("delete from chunks where langchain_id = any(%s)", [gone])


PATH = __name__
ENGINE = {
    "factory": "langchain_postgres:PGEngine.from_connection_string",
    "config": {"url": "{{ .env.URL }}"},
}
DATABASES: dict[str, tuple[dict[str, Any], Any]] = {
    "sqlite": ({"type": "sqlite"}, lose_rows),
    "pgvector": ({"type": "pgvector", "config": {"dsn": "{{ .env.DSN }}"}}, lose_in_postgres),
    "qdrant": ({"type": "qdrant", "config": {"path": "qdrant"}}, lose_points),
    "exact": ({"type": "langchain", "class": f"{PATH}:Kept", "persistent": True}, lose_documents),
    "langchain": ({"type": "langchain", "factory": f"{PATH}:vectors"}, lose_documents),
    "table": (
        {
            "type": "langchain",
            "factory": "tests.torture.langchain_table:table",
            "config": {"engine": ENGINE, "schema": "{{ .env.SCHEMA }}"},
        },
        lose_in_table,
    ),
}
ALONE = ("qdrant",)
"""Databases that only one program can open at a time."""
UNCOUNTED = ("exact", "langchain", "table")
"""Databases that do not count their vectors, so that a small loss may not be noticed."""


class Scene:
    """A project whose vectors are in one of these databases."""

    def __init__(self, kind: str, root: Path, dsn: str) -> None:
        self.kind, self.root = kind, root
        self._dsn = dsn
        declared, self._lose = DATABASES[kind]
        url = make_url(dsn.replace("postgresql:", "postgresql+psycopg:"))
        schema = str(url.query["options"]).removeprefix("-csearch_path=").partition(",")[0]
        self._environ = {
            "DSN": dsn,
            "URL": url.render_as_string(hide_password=False),
            "SCHEMA": schema,
        }
        self._declared = {
            "name": "losing",
            "embedders": [{"id": "words", "provider": "hashing"}],
            "vector_dbs": [{"id": "db", **declared}],
            "knowledge_bases": [
                {
                    "id": "docs",
                    "embedder": "words",
                    "vector_db": "db",
                    "sources": [{"type": "markdown_glob", "path": "docs/*.md"}],
                    "chunking": {"size": 100, "overlap": 0},
                    "preprocess": {"dedupe": False},
                }
            ],
        }
        KEPT.clear()
        for number in range(DOCUMENTS):
            parts = [f"word{number}x{part} passage {part} of {number}" for part in range(PASSAGES)]
            write(root, {f"docs/{number}.md": "\n\n".join(f"{part} {'x ' * 35}" for part in parts)})

    def project(self) -> Project:
        return Project.build(self._declared, root=self.root, environ=self._environ)

    def lose(self, case: random.Random, count: int) -> None:
        self._lose(case, self.root, self._dsn, count)


def answers(project: Project, top_k: int) -> dict[str, list[tuple[str, float]]]:
    """Return the results of strategies that have a fixed order for equal scores."""
    return {
        strategy: [
            (match.id, round(match.score, 5))
            for match in project.query("docs", "word2x3", strategy=strategy, top_k=top_k).matches
        ]
        for strategy in STRATEGIES[:2]
    }


def check_answers(project: Project, scene: Scene, lost: int, every: list[str]) -> int:
    """Check that questions return the remaining passages or an error; count those answered."""
    answered = 0
    for strategy in STRATEGIES:
        for top_k in (1, 5, COUNT):
            try:
                matches = project.query("docs", "word2x3", strategy=strategy, top_k=top_k).matches
            except StoreError as error:
                message = str(error)
                # The first message is for a missing table, the other one for lost vectors.
                assert "lorebind knowledge ingest" in message or "ingest again" in message
                continue
            answered += 1
            ids = [match.id for match in matches]
            if strategy != "similarity":
                assert len(ids) >= max(1, min(top_k, COUNT - lost))
            elif ids != every[:top_k]:
                assert lost < COUNT
                assert len(ids) == min(top_k, COUNT - lost)
                assert ids == [name for name in every if name in ids]
                assert top_k < COUNT or scene.kind in UNCOUNTED[1:]
    return answered


def finding(project: Project, *, deep: bool) -> tuple[str, str]:
    """Return the status and detail of the knowledge base in `doctor`."""
    (check,) = [check for check in project.doctor(deep=deep) if check.part == "knowledge base docs"]
    return check.status, check.detail


@pytest.mark.parametrize("kind", DATABASES)
def test_lost_vectors(
    trials: Trials, tmp_path_factory: pytest.TempPathFactory, new_dsn: Callable[[], str], kind: str
) -> None:
    """Questions and `doctor` report lost vectors, and an ingest restores them from the cache."""

    def check(case: Case) -> None:
        scene = Scene(kind, tmp_path_factory.mktemp(kind), new_dsn())
        lost = (1, COUNT, COUNT // 2)[case.number % 3]
        lost_text = f"has lost {lost} of {COUNT} vectors"
        with scene.project() as project:
            assert project.ingest("docs").texts_embedded == COUNT
            before = answers(project, 5), answers(project, COUNT)
            every = [name for name, _ in before[1]["similarity"]]
            if kind not in ALONE:
                scene.lose(case, lost)
                check_answers(project, scene, lost, every)
        if kind in ALONE:
            scene.lose(case, lost)
        with scene.project() as project:
            answered = check_answers(project, scene, lost, every)
            if case.number == 0:  # one is lost, which not every question needs
                assert answered
            assert finding(project, deep=False)[0] == "failed" or (kind in UNCOUNTED and lost == 1)
            status, detail = finding(project, deep=True)
            assert (status, lost_text in detail) == ("failed", True), detail
            _, _, command = detail.rpartition("lorebind knowledge ")
            verb, _, name = command.partition(" ")
            assert name == "docs"
            report = getattr(project.knowledge_base("docs"), verb)()
            assert (report.status, report.texts_embedded) == ("completed", 0)
            if verb == "ingest":
                assert (
                    f"had lost {lost} of {COUNT} vectors; they have been restored"
                    in report.notices[0]
                )
            else:
                assert (kind in UNCOUNTED, lost) == (True, 1)
            assert finding(project, deep=True)[0] == "ok"
            assert (answers(project, 5), answers(project, COUNT)) == before
            assert project.ingest("docs").notices == []

    trials.run(f"lost vectors {kind}", check, short=2, full=50)
