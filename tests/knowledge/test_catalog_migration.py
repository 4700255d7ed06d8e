"""Migration of catalogs of earlier versions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from lorebind_knowledge.catalog.catalog import Catalog
from lorebind_knowledge.catalog.ledger import DocumentEntry
from lorebind_knowledge.catalog.schema import NUMBERED, SCHEMA_VERSION
from lorebind_knowledge.catalog.tables import CATALOG
from lorebind_knowledge.database.postgres import PostgresDatabase
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import document_id
from lorebind_knowledge.postgres.address import PostgresAddress

from .bench import CountingEmbedder
from .test_catalog import HERE, MANIFEST, start_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NEW_TABLES = ("catalog_leases", "catalog_versions", "catalog_chunks", "catalog_vectors")
UNDONE = {
    9: ("ALTER TABLE catalog_documents DROP COLUMN textless_pages",),
    8: (
        *(f"DROP INDEX catalog_{name}" for name in ("documents_id", "documents_unready")),
        "DROP INDEX catalog_runs_started",
        "ALTER TABLE catalog_documents DROP COLUMN id",
    ),
    7: (
        "ALTER TABLE catalog_versions DROP COLUMN language",
        "ALTER TABLE catalog_indexes DROP COLUMN words",
    ),
    6: ("DROP TABLE catalog_added",),
    5: (
        *(f"DROP TABLE {table}" for table in NEW_TABLES),
        *(
            f"ALTER TABLE catalog_indexes DROP COLUMN {column}"
            for column in ("birth", "version", "swept", "live", "entered", "next_number")
        ),
        *(f"DROP TABLE IF EXISTS {table}" for table in ("catalog_words", "catalog_word_counts")),
        "ALTER TABLE catalog_documents ADD COLUMN chunk_ids JSON",
        "ALTER TABLE catalog_documents ADD COLUMN staged INTEGER NOT NULL DEFAULT 0",
    ),
    4: ("ALTER TABLE catalog_documents DROP COLUMN refused",),
    3: (
        "DROP INDEX catalog_embeddings_use",
        "ALTER TABLE catalog_embeddings DROP COLUMN used_on",
        "ALTER TABLE catalog_embeddings DROP COLUMN size",
    ),
    2: (
        "ALTER TABLE catalog_documents DROP COLUMN version",
        "ALTER TABLE catalog_documents DROP COLUMN recipe",
    ),
}
"""Statements that undo what each version has added."""


@pytest.fixture(params=["file", "postgres"])
def make_catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Catalog]:
    def make(**settings: Any) -> Catalog:
        if request.param == "file":
            return Catalog(tmp_path / "x.db")
        address = PostgresAddress(request.getfixturevalue("dsn"))
        return Catalog(postgres=PostgresDatabase(address, CATALOG, **settings))

    return make


def go_back(catalog: Catalog, version: int) -> None:
    """Turn the tables into those of an earlier version, with their contents."""
    with catalog._database.writing() as sql:
        for step in range(SCHEMA_VERSION, version, -1):
            for statement in UNDONE[step]:
                sql.run(statement)
        sql.run(f"UPDATE catalog_version SET version = {version}")


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
async def test_an_earlier_version(make_catalog: Callable[..., Catalog], version: int) -> None:
    """Tables of an earlier version become the current ones, with the same contents."""
    embedder = CountingEmbedder()
    with contextlib.closing(make_catalog()) as catalog:
        with catalog.lease(HERE) as lease:
            key = catalog.ledger.create_index(lease, MANIFEST).key
            catalog.ledger.activate_index(lease, key)
            catalog.ledger.put_documents(lease, key, [DocumentEntry("a.md", "s")], "run")
        await catalog.embeddings.embed(embedder, ["a", "b"])
        today = shape(catalog)
        go_back(catalog, version)
    with contextlib.closing(make_catalog()) as catalog:
        assert list(catalog.ledger.documents(key)) == ["a.md"]
        with catalog.reading() as sql:
            assert catalog.ledger.document_within(sql, key, document_id("a.md")) is not None
        # The store of that version kept the texts: an index that cannot be migrated is retired.
        state = "active" if version >= NUMBERED else "retired"
        found = catalog.ledger.index(HERE, state)
        assert found is not None
        assert found.key == key
        assert found.birth > 0
        assert (await catalog.embeddings.embed(embedder, ["a", "b"])).cache_hits == 2
        assert shape(catalog) == today
        with catalog._database.reading() as sql:
            sizes = sql.run("SELECT size FROM catalog_embeddings")
        assert sizes == [(64 * 4,)] * 2


def shape(catalog: Catalog) -> set[tuple[str, ...]]:
    """Return the catalog's tables with their columns, and its database indexes."""
    with catalog._database.reading() as sql:
        if sql.is_postgres:
            columns = "select table_name, column_name from information_schema.columns where"
            indexes = "select indexname from pg_indexes where indexname not like '%%_pkey' and"
            ours = "schema = current_schema()"
            return {
                *sql.run(f"{columns} table_{ours}"),
                *sql.run(f"{indexes} schemaname = current_schema()"),
            }
        columns = "select m.name, c.name from sqlite_master as m, pragma_table_info(m.name) as c"
        return {*sql.run(columns), *sql.run("select name from sqlite_master where type = 'index'")}


async def test_without_leave_to_change_tables(dsn: str) -> None:
    """With `ensure_schema: false`, tables of an earlier version do not change, and the error shows
    SQL that migrates them with their contents."""
    address = PostgresAddress(dsn)
    with contextlib.closing(Catalog(postgres=PostgresDatabase(address, CATALOG))) as catalog:
        await catalog.embeddings.embed(CountingEmbedder(), ["a"])
        go_back(catalog, 1)
    database = PostgresDatabase(address, CATALOG, ensure_schema=False)
    with contextlib.closing(Catalog(postgres=database)) as catalog:
        with pytest.raises(StoreError, match="of an earlier version, and ensure_schema") as caught:
            start_run(catalog)
        with address.connect(autocommit=True) as db:
            db.execute(str(caught.value).partition(":\n")[2])
        assert catalog.embeddings.missing(CountingEmbedder(), ["a"]) == {}
