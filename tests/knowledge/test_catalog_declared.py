"""Catalogs declared for vector databases without one of their own: in SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from lorebind_config.errors import ConfigurationError, IngestRunningError, StoreError, UsageError
from lorebind_config.reading.loading import build_project
from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.schema import CATALOG
from lorebind_knowledge.database.databases import PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.documents.listing import knowledge_stats
from lorebind_knowledge.ingest.engine import ingest
from lorebind_knowledge.service import KnowledgeService

from .test_catalog import ELSEWHERE, HERE, create_index, read_everything

QDRANT: dict[str, Any] = {"type": "qdrant", "config": {"path": "vectors"}}
LANGCHAIN: dict[str, Any] = {
    "type": "langchain",
    "class": "langchain_core.vectorstores:InMemoryVectorStore",
}
DSN = "{{ .secrets.CATALOG_DSN }}"


def declared(*vector_dbs: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "shop",
        "embedders": [{"id": "words", "provider": "hashing", "config": {"dimension": 32}}],
        "vector_dbs": list(vector_dbs),
        "knowledge_bases": [
            {"id": "docs", "sources": [{"type": "markdown_glob", "path": "docs/*.md"}]}
        ],
    }


@pytest.fixture
def make_service(tmp_path: Path, dsn: str) -> Callable[..., KnowledgeService]:
    """Return a function that makes services of one project, with its documents on disk."""
    (tmp_path / "docs").mkdir()
    for name in ("keys", "snow"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"# {name}\n\nAll of {name}.\n")

    def make(*vector_dbs: dict[str, Any]) -> KnowledgeService:
        environ = {"CATALOG_DSN": dsn}
        return KnowledgeService(
            build_project(declared(*vector_dbs), root=tmp_path, environ=environ)
        )

    return make


@pytest.fixture
def name() -> str:
    """Return an id that no other test uses, for a schema of its own."""
    return f"db-{uuid4().hex[:8]}"


def files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.db"))


def tables(dsn: str, of: str) -> set[str]:
    with psycopg.connect(dsn) as db:
        query = "select tablename from pg_tables where schemaname = %s"
        return {name for (name,) in db.execute(query, [of])}


async def test_qdrant_with_its_catalog_in_postgresql(
    make_service: Callable[..., KnowledgeService], tmp_path: Path, dsn: str, name: str
) -> None:
    """The ledger in PostgreSQL outlives the process, and no file is created for it."""
    database = {**QDRANT, "id": name, "catalog": {"dsn": DSN}}
    service = make_service(database)
    report = await ingest(service.open("docs").corpus())
    assert (report.status, report.documents["added"]) == ("completed", 2)
    assert "catalog_documents" in tables(dsn, f"lorebind_{name}")
    assert f"{name}.catalog.db" not in files(tmp_path)
    await service.close()

    service = make_service(database)
    answer = await service.open("docs").query("snow")
    assert answer.matches[0].metadata["uri"] == "docs/snow.md"
    report = await ingest(service.open("docs").corpus())
    assert (report.documents["unchanged"], report.texts_embedded) == (2, 0)
    (tmp_path / "docs" / "snow.md").unlink()
    report = await ingest(service.open("docs").corpus(), strategy="replace")
    assert report.cache_hits == 1
    assert (await service.open("docs").read(knowledge_stats)).documents["ready"] == 1
    await service.close()


async def test_a_sqlite_file_elsewhere(
    make_service: Callable[..., KnowledgeService], tmp_path: Path
) -> None:
    """A path is relative to the project's folder; the default file is not created."""
    service = make_service({**QDRANT, "id": "q", "catalog": {"path": "kept/ledger.db"}})
    await ingest(service.open("docs").corpus())
    await service.close()
    assert (tmp_path / "kept" / "ledger.db").is_file()
    assert "q.catalog.db" not in files(tmp_path)


async def test_langchain_with_its_catalog_in_postgresql(
    make_service: Callable[..., KnowledgeService], dsn: str, name: str
) -> None:
    """A LangChain class may have its catalog in PostgreSQL, unless its vectors are in memory."""
    service = make_service({**LANGCHAIN, "id": name, "persistent": True, "catalog": {"dsn": DSN}})
    await ingest(service.open("docs").corpus())
    assert (await service.open("docs").query("keys")).matches[0].metadata["uri"] == "docs/keys.md"
    assert "catalog_runs" in tables(dsn, f"lorebind_{name}")
    await service.close()
    service = make_service({**LANGCHAIN, "id": name, "catalog": {"dsn": DSN}})
    with pytest.raises(UsageError, match="kept in memory"):
        await ingest(service.open("docs").corpus())


async def test_two_databases_in_one_catalog_server(
    make_service: Callable[..., KnowledgeService], name: str
) -> None:
    """A knowledge base that moves to another vector database is ingested again, without mixing."""
    first: dict[str, Any] = {**QDRANT, "id": name, "catalog": {"dsn": DSN}}
    service = make_service(first)
    await ingest(service.open("docs").corpus())
    await service.close()
    other = {**first, "id": f"{name}.b", "config": {"path": "elsewhere"}}
    service = make_service(other)
    report = await ingest(service.open("docs").corpus())
    assert report.documents["added"] == 2
    assert len(await service.open("docs").query("keys")) == 2
    await service.close()


def test_ids_longer_than_names(dsn: str, make_service: Callable[..., KnowledgeService]) -> None:
    """Two ids that PostgreSQL would cut to the same name have separate schemas."""
    ids = [f"{'long-' * 14}{letter}{uuid4().hex[:4]}" for letter in "ab"]
    catalog = {"dsn": DSN}
    service = make_service(*({**QDRANT, "id": name, "catalog": catalog} for name in ids))
    first, second = (service.index(name).catalog for name in ids)
    create_index(first)
    create_index(second)
    assert second.ledger.retired_indexes(HERE) == []
    entry = second.ledger.index(HERE, "building")
    assert entry is not None
    assert entry.key.number == 1
    for catalog_made in (first, second):
        catalog_made.close()


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        (
            {},
            r"vector_dbs\[0\]\.catalog: the catalog has no location; write either 'path' or 'dsn'",
        ),
        ({"path": "a.db", "dsn": DSN}, r"catalog\.dsn: path and dsn are both given"),
        ({"path": "a.db", "schema": "s"}, r"catalog\.schema: a SQLite file has no schemas"),
        ({"dsn": "postgresql://me:hush@host/db"}, r"catalog\.dsn: dsn holds a literal value"),
        ({"dsn": DSN, "schema": "no good"}, r"catalog\.schema: "),
        ({"file": "a.db"}, r"catalog\.file: unknown key 'file'"),
    ],
)
def test_declarations_that_cannot_be(tmp_path: Path, catalog: dict[str, Any], message: str) -> None:
    """Each invalid declaration is refused at its location, without repeating a literal secret."""
    data = declared({**QDRANT, "id": "q", "catalog": catalog})
    with pytest.raises(ConfigurationError, match=message) as raised:
        build_project(data, root=tmp_path, environ={"CATALOG_DSN": "x"})
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    "database",
    [
        {"type": "qdrant", "config": {"path": ":memory:"}},
        {**LANGCHAIN, "persistent": False},
    ],
)
def test_vectors_in_memory(tmp_path: Path, database: dict[str, Any]) -> None:
    """A catalog that would outlive vectors in memory is refused."""
    data = declared({**database, "id": "q", "catalog": {"path": "a.db"}})
    with pytest.raises(ConfigurationError, match="lost when the process ends"):
        build_project(data, root=tmp_path, environ={})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"path": "a.db"}, {"path": "a.db"}),
        ({"dsn": DSN, "schema": "shared"}, {"dsn": DSN, "schema": "shared"}),
    ],
)
def test_two_catalogs_in_one_place(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """The second catalog at a location is refused; the error names the first."""
    data = declared(
        {**QDRANT, "id": "one", "catalog": first}, {**QDRANT, "id": "two", "catalog": second}
    )
    with pytest.raises(ConfigurationError, match="'one' already keeps its catalog there"):
        build_project(data, root=tmp_path, environ={"CATALOG_DSN": "x"})


def test_in_the_file_of_a_sqlite_database(tmp_path: Path) -> None:
    """A catalog cannot be in the file of a SQLite database, which has one; others are allowed."""
    sqlite = {"id": "file", "type": "sqlite", "config": {"path": "x.db"}}
    for path, refused in (("x.db", True), ("y.db", False)):
        data = declared(sqlite, {**QDRANT, "id": "q", "catalog": {"path": path}})
        if refused:
            with pytest.raises(ConfigurationError, match="'file' already keeps its catalog there"):
                build_project(data, root=tmp_path, environ={})
        else:
            build_project(data, root=tmp_path, environ={})


# A schema of its own.


@pytest.fixture
def make_catalog(dsn: str, name: str) -> Iterator[Callable[..., Catalog]]:
    catalogs: list[Catalog] = []

    def make(own_schema: str = name, *, ensure_schema: bool = True) -> Catalog:
        address = PostgresAddress(dsn)
        database = PostgresDatabase(
            address, CATALOG, ensure_schema=ensure_schema, own_schema=own_schema
        )
        catalogs.append(Catalog(postgres=database))
        return catalogs[-1]

    yield make
    for catalog in catalogs:
        catalog.close()


def test_reading_makes_no_schema(make_catalog: Callable[..., Catalog], dsn: str, name: str) -> None:
    """Only a write creates the schema; if that is not allowed, the error shows the SQL."""
    refusing = make_catalog(ensure_schema=False)
    read_everything(refusing)
    with pytest.raises(StoreError, match="ensure_schema is false") as raised:
        create_index(refusing)
    script = str(raised.value).partition("create them with:\n")[2]
    assert tables(dsn, name) == set()
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute(script.encode())
    create_index(refusing)
    entry = make_catalog().ledger.index(HERE, "building")
    assert entry is not None


def test_locks_of_two_schemas(make_catalog: Callable[..., Catalog], name: str) -> None:
    """Each schema has its own lock, even before the schema is created."""
    with make_catalog().lease(HERE):
        with make_catalog(f"{name}-other").lease(HERE):
            pass
        create_index(make_catalog(), ELSEWHERE)
        with pytest.raises(IngestRunningError), make_catalog().lease(HERE):
            pass
