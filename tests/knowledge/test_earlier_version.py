"""Data of the previous version, whose stores kept texts and words: see `earlier/make.py`."""

from __future__ import annotations

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from lorebind import NotIngestedError, StoreError, tenant
from lorebind_knowledge.catalog import earlier_postgres, earlier_sqlite
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.tables import CATALOG
from lorebind_knowledge.database.postgres import PostgresDatabase
from lorebind_knowledge.namespace import Namespace
from lorebind_knowledge.postgres.address import PostgresAddress
from lorebind_knowledge.stores.pgvector.table import Table

from .earlier.project import (
    FOLDER,
    KNOWLEDGE_BASES,
    QUESTIONS,
    STRATEGIES,
    answers,
    answers_by_hand,
    build,
    only,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lorebind import Project

ANSWERS = json.loads((FOLDER / "answers.json").read_text())
AS_BEFORE = ("similarity",)
"""Strategies with the same results as in that version: `hybrid` now has other weights, and
`lexical` returns one more passage for each that lies within the neighbors of another."""
INGESTED = only(ANSWERS["ingested"], AS_BEFORE)
SQL = (FOLDER / "postgres.sql").read_text()
DOCS = Namespace("default", "earlier", "project", "docs")
INTO_THE_VIEW = (
    "insert into knowledge_chunks (langchain_id, content, embedding, langchain_metadata)"
    " values ('theirs', 'their text', '[1,2,3]', '{}')"
)


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Project]:
    """Return a function that makes projects in a folder with data of the previous version."""
    shutil.copytree(FOLDER / "docs", tmp_path / "docs")
    shutil.copy(FOLDER / "kept.py", tmp_path)

    def project(database: str, **settings: Any) -> Project:
        if database == "postgres":
            return build(tmp_path, database, dsn=request.getfixturevalue("dsn"), **settings)
        if not (tmp_path / ".lorebind").exists():
            shutil.copytree(FOLDER / database, tmp_path / ".lorebind")
        return build(tmp_path, database, **settings)

    return project


@pytest.fixture
def written(dsn: str) -> str:
    """Return the DSN of a schema with data of the previous version."""
    execute(dsn, SQL)
    return dsn


def execute(dsn: str, *statements: str) -> list[Any]:
    """Run statements, and return the rows of the last one."""
    with psycopg.connect(dsn) as db:
        for statement in statements:
            rows = db.execute(statement.encode())
        return rows.fetchall() if rows.description else []


def relations(dsn: str) -> set[str]:
    rows = execute(
        dsn,
        "select relname from pg_class where relnamespace = current_schema()::regnamespace"
        " and relname like 'knowledge_chunks%' and relkind in ('r', 'v', 'S')",
    )
    return {name for (name,) in rows}


def chunks(project: Project) -> list[Any]:
    """Return the catalog's data about live chunks, in document order."""
    with project.knowledge.index().catalog.reading() as sql:
        return sql.run(
            "select i.tenant, i.scope, v.uri, v.generation, c.id, c.context, c.text, c.metadata"
            " from catalog_chunks as c join catalog_versions as v on v.version = c.version"
            " join catalog_indexes as i on i.birth = c.space"
            " order by i.tenant, i.scope, v.uri, c.row"
        )


def ingest(project: Project) -> list[tuple[int, int, int]]:
    """Ingest; return the numbers of added and unchanged documents and of embedded texts."""
    reports = []
    for owner, workflow in KNOWLEDGE_BASES:
        with tenant(owner):
            report = project.ingest("docs", workflow=workflow)
            index = project.knowledge.index()
            namespace = project.knowledge.knowledge_base("docs", workflow).namespace
            entry = index.catalog.ledger.index(namespace, "active")
            assert entry is not None
            assert index.compare(entry, deep=True).lost == []
            documents = report.documents
            reports.append((documents["added"], documents["unchanged"], report.texts_embedded))
    return reports


@pytest.fixture(params=["sqlite", "postgres"])
def adopted(request: pytest.FixtureRequest, make: Callable[..., Project]) -> Callable[[], Project]:
    """Return a function that opens data of the previous version, in each migrated database."""
    if request.param == "postgres":
        request.getfixturevalue("written")
    return lambda: make(request.param)


def test_nothing_changes(adopted: Callable[[], Project]) -> None:
    """Every strategy finds the same passages with the same scores, before an ingest and after it.
    The ingest cuts the documents again, and has no text to embed."""
    with adopted() as project:
        assert answers(project, AS_BEFORE) == INGESTED
        assert answers_by_hand(project) == ANSWERS["by hand"]
        assert ingest(project) == [(0, 0, 0)] * 3
    with adopted() as project:
        assert answers(project, AS_BEFORE) == INGESTED
        assert answers_by_hand(project) == ANSWERS["by hand"]


def test_hybrid_finds_what_it_would_in_a_new_index(adopted: Callable[[], Project]) -> None:
    """A migrated index has the words and documents of a new one."""
    with adopted() as project:
        before = answers(project, STRATEGIES)
        for owner, workflow in KNOWLEDGE_BASES:
            with tenant(owner):
                project.ingest("docs", workflow=workflow, strategy="replace")
        assert answers(project, STRATEGIES) == before


def test_it_is_written_as_before(adopted: Callable[[], Project], tmp_path: Path) -> None:
    """Documents and collections can be changed as if this version had written them: unchanged
    chunks keep their vectors."""
    with adopted() as project:
        index = project.knowledge.index()
        entry = index.catalog.ledger.index(DOCS, "active")
        assert entry is not None
        assert index.store.count(entry.space) == 8
        with (tmp_path / "docs" / "keys.md").open("a") as file:
            file.write("\n## Locks\n\nLocks are oiled at night.\n")
        report = project.ingest("docs")
        assert (report.documents["updated"], report.documents["unchanged"]) == (3, 0)
        changed = {name: report.chunks[name] for name in ("added", "removed", "unchanged")}
        assert changed == {"added": 2, "removed": 1, "unchanged": 7}
        assert index.store.count(entry.space) == 9
        assert "oiled" in project.query("docs", "oiled locks").matches[0].text
        notes = project.collection("notes")
        notes.add_texts(["notes about nothing"], ids=["b"])
        notes.delete(["a"])
        assert {one.id for one in notes.similarity_search("notes", k=9)} == {"b", "c"}


def test_both_databases_alike(make: Callable[..., Project], written: str) -> None:
    """Contexts of chunks are the same from both, although PostgreSQL stored only their words."""
    with make("sqlite") as project:
        in_sqlite = chunks(project)
    with make("postgres") as project:
        assert chunks(project) == in_sqlite
    contexts = {row[5] for row in in_sqlite}
    assert contexts == {
        *("", "Billing", "Billing > Refunds", "setup", "Settings > Privacy"),
        *(f"Settings > Privacy > {name}" for name in ("Keys", "Keys > Lost keys", "Cookies")),
    }
    assert any("\0" in row[6] and "\x01" in row[6] for row in in_sqlite)


@pytest.mark.parametrize("database", ["qdrant", "langchain"])
def test_what_cannot_be_brought_along(
    make: Callable[..., Project], database: str, tmp_path: Path
) -> None:
    """In other databases nothing is found until an ingest, which embeds nothing. The file that
    mapped LangChain's documents is no longer needed, and stays."""
    with make(database) as project:
        with pytest.raises(NotIngestedError, match="run: lorebind knowledge ingest docs"):
            project.query("docs", QUESTIONS[0])
        assert ingest(project) == [(3, 0, 0)] * 3
    with make(database) as project:
        assert answers(project, AS_BEFORE) == INGESTED
        assert ingest(project) == [(0, 3, 0)] * 3
    if database == "langchain":
        kept = (FOLDER / database / "db.langchain.db").read_bytes()
        assert (tmp_path / ".lorebind" / "db.langchain.db").read_bytes() == kept


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_still_earlier_version(
    make: Callable[..., Project], database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Vectors of a still earlier version are not touched, and the knowledge bases need another
    ingest."""
    if database == "postgres":
        written = request.getfixturevalue("written")
        execute(written, "update knowledge_chunks_version set version = 1")
    else:
        make(database).close()
        with closing(sqlite3.connect(tmp_path / ".lorebind" / "lorebind.db")) as db, db:
            db.execute("update vector_schema set version = 1")
    with make(database) as project:
        with pytest.raises(NotIngestedError):
            project.query("docs", QUESTIONS[0])
        assert ingest(project) == [(3, 0, 0)] * 3
        assert answers(project, AS_BEFORE) == INGESTED


def test_all_or_nothing(adopted: Callable[[], Project], monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted migration changes nothing; the next process does it."""

    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(earlier_postgres, "_clear", cut_off)
        patch.setattr(earlier_sqlite, "_at_length_1", cut_off)
        with adopted() as project, pytest.raises(KeyboardInterrupt):
            project.query("docs", QUESTIONS[0])
    with adopted() as project:
        assert answers(project, AS_BEFORE) == INGESTED


# PostgreSQL.


def test_the_old_tables_go(make: Callable[..., Project], written: str, new_dsn: Any) -> None:
    """Only the current table is left, the same as the store creates."""
    assert len(relations(written)) > 3
    with make("postgres") as project:
        project.query("docs", QUESTIONS[0])
    assert relations(written) == {"knowledge_chunks_vectors"}
    told = "select distinct jsonb_object_keys(fields) from knowledge_chunks_vectors"
    assert {name for (name,) in execute(written, told)} == {
        *("kb_id", "uri", "title", "heading", "team", "n")
    }
    made = new_dsn()
    execute(made, *Table("knowledge_chunks").sql())
    for asked in (
        "select indexname, regexp_replace(indexdef, 'ON \\w+\\.', '') from pg_indexes where"
        " schemaname = current_schema() and tablename = 'knowledge_chunks_vectors' order by 1",
        "select attname, atttypid, attnotnull, attstorage from pg_attribute"
        " where attrelid = 'knowledge_chunks_vectors'::regclass and attnum > 0 order by attnum",
    ):
        assert execute(written, asked) == execute(made, asked) != []


def test_a_table_of_another_name(make: Callable[..., Project], dsn: str) -> None:
    """Tables are recognized by their columns, under any names; there may be several."""
    execute(dsn, SQL.replace("knowledge_chunks", "Lore_1"))
    execute(dsn, *vectors_once_more("empty"), "truncate empty_rows, empty_docs, empty_indexes")
    with make("postgres", table="Lore_1") as project:
        assert answers(project, AS_BEFORE) == INGESTED
        assert ingest(project) == [(0, 0, 0)] * 3


def test_what_langchain_has_written(make: Callable[..., Project], written: str) -> None:
    """Rows that PGVectorStore has added stay in their view, and can be deleted there."""
    execute(written, INTO_THE_VIEW)
    with make("postgres") as project:
        assert answers(project, AS_BEFORE) == INGESTED
    assert execute(written, "select content from knowledge_chunks_rows") == [("their text",)]
    assert execute(written, "select content from knowledge_chunks") == [("their text",)]
    execute(written, "delete from knowledge_chunks where langchain_id = 'theirs'")
    assert execute(written, "select * from knowledge_chunks_rows") == []


def test_beside_a_table_of_langchains(make: Callable[..., Project], written: str) -> None:
    """A table that PGVectorStore has created under the declared name does not change."""
    execute(
        written,
        "drop view knowledge_chunks",
        "drop function knowledge_chunks_guard cascade",
        "create table knowledge_chunks (langchain_id uuid, content text, embedding vector)",
    )
    with make("postgres") as project:
        assert answers(project, AS_BEFORE) == INGESTED
    assert relations(written) == {"knowledge_chunks", "knowledge_chunks_vectors"}


def test_what_the_catalog_does_not_know(make: Callable[..., Project], written: str) -> None:
    """Documents that were added by hand without a catalog stay where they are."""
    execute(written, "delete from catalog_indexes where scope = 'collection'")
    with make("postgres") as project:
        assert answers(project, AS_BEFORE) == INGESTED
    assert len(execute(written, "select * from knowledge_chunks")) == 3
    assert execute(written, "select kb from knowledge_chunks_indexes") == [("notes",)]


def test_tables_that_others_use(make: Callable[..., Project], written: str) -> None:
    """Tables that a foreign view needs are emptied instead of dropped."""
    execute(written, "create view theirs as select content from knowledge_chunks")
    with make("postgres") as project:
        assert answers(project, AS_BEFORE) == INGESTED
    assert execute(written, "select * from theirs") == []


def test_an_index_in_two_tables(make: Callable[..., Project], written: str) -> None:
    """An index that is in two tables, after a renaming, is not migrated but ingested again."""
    execute(written, *vectors_once_more("other"))
    with make("postgres") as project:
        with pytest.raises(NotIngestedError):
            project.query("docs", QUESTIONS[0])
        assert ingest(project) == [(3, 0, 0)] * 3
        assert answers(project, AS_BEFORE) == INGESTED
    assert len(execute(written, "select * from knowledge_chunks_rows")) == 28


def test_several_open_it_at_once(written: str) -> None:
    """One process migrates the data; the others wait, and see the same."""
    catalogs = [
        Catalog(postgres=PostgresDatabase(PostgresAddress(written), CATALOG)) for _ in range(4)
    ]
    with ThreadPoolExecutor(len(catalogs)) as threads:
        found = list(threads.map(lambda one: one.ledger.index(DOCS, "active"), catalogs))
    assert found[0] is not None
    assert found == [found[0]] * 4
    for catalog in catalogs:
        catalog.close()


def test_without_leave_to_change_tables(make: Callable[..., Project], written: str) -> None:
    """With `ensure_schema: false`, the error has the SQL and says that everything must be ingested
    again, which embeds nothing."""
    with make("postgres", ensure_schema=False) as project:
        with pytest.raises(
            StoreError, match="set it to true once, which keeps the indexes"
        ) as caught:
            project.query("docs", QUESTIONS[0])
        assert "ingest everything again, which uses cached vectors" in str(caught.value)
        execute(written, str(caught.value).partition(":\n")[2])
        with pytest.raises(NotIngestedError):
            project.query("docs", QUESTIONS[0])
        births = execute(written, "select distinct birth from catalog_indexes where birth > 0")
        assert len(births) == 4
        with pytest.raises(StoreError, match='"knowledge_chunks_vectors" missing') as caught:
            project.ingest("docs")
        execute(written, str(caught.value).partition(":\n")[2])
        assert [embedded for *_, embedded in ingest(project)] == [0, 0, 0]
        assert answers(project, AS_BEFORE) == INGESTED


def vectors_once_more(table: str) -> list[str]:
    """Return statements that create the tables of vectors under another name too."""
    ours = (line for line in SQL.split(";\n") if "knowledge_chunks" in line)
    return [line.replace("knowledge_chunks", table) for line in ours]
