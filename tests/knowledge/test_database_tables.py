"""Tables outside of the catalog are made, migrated and refused, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lorebind_config.errors import StoreError
from lorebind_knowledge.database.databases import EmbeddedDatabase, PostgresDatabase
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.database.tables import Tables

BOOKS = "create table if not exists books (number [count], title [name] not null)"
LOANS = "create table if not exists loans (book integer not null, reader varchar not null)"
FIRST = Tables("library", 1, [BOOKS])
SECOND = Tables(
    "library",
    2,
    [BOOKS.replace(")", ", shelf varchar not null default '')"), LOANS],
    migrations={2: ["alter table books add column shelf varchar not null default ''"]},
    move_away="restore the library",
)


@pytest.fixture(params=["memory", "file", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    def build(tables: Tables, **settings: Any) -> Any:
        if request.param == "postgres":
            address = PostgresAddress(request.getfixturevalue("dsn"))
            return PostgresDatabase(address, tables, **settings)
        return EmbeddedDatabase(None if request.param == "memory" else tmp_path / "a.db", tables)

    return build


@pytest.fixture
def make_kept(make: Callable[..., Any], request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The same databases except the one in memory, which cannot be shared."""
    if request.node.callspec.params["make"] == "memory":
        pytest.skip("nothing is kept")
    return make


def test_two_tables(make: Callable[..., Any]) -> None:
    """Tables are empty before they exist. Keys are counted; names sort by code point."""
    with closing(make(SECOND)) as database:
        with database.reading() as sql:
            assert sql.run("select * from loans") == []
        with database.writing() as sql:
            sql.insert("books", [{"title": title} for title in ("b", "B", "a")])
            sql.run("insert into loans select number, 'Ada' from books where title = 'B'")
        with database.reading() as sql:
            assert sql.run("select title from books order by title") == [("B",), ("a",), ("b",)]
            assert sql.run("select book, reader from loans") == [(2, "Ada")]
        assert str(database).startswith("library ")


def test_a_migration(make_kept: Callable[..., Any]) -> None:
    """Rows of the previous version are kept, and then that version refuses the tables."""
    with closing(make_kept(FIRST)) as database, database.writing() as sql:
        sql.insert("books", [{"title": "a"}])
    with closing(make_kept(SECOND)) as database:
        with database.reading() as sql:
            assert sql.run("select title, shelf from books") == [("a", "")]
        with database.writing() as sql:
            assert sql.run("select version from library_schema") == [(2,)]
            assert sql.run("select * from loans") == []
    with (
        closing(make_kept(FIRST)) as database,
        pytest.raises(StoreError, match=r"library .*newer Lorebind .schema 2, .* knows 1"),
        database.reading(),
    ):
        pass


def test_a_damaged_version(make_kept: Callable[..., Any]) -> None:
    """The error suggests the fix that the tables were given."""
    with closing(make_kept(SECOND)) as database, database.writing() as sql:
        sql.run("update library_schema set version = 0")
    with (
        closing(make_kept(SECOND)) as database,
        pytest.raises(StoreError, match="is damaged: 0; restore the library"),
        database.reading(),
    ):
        pass


def test_tables_from_before_the_first_release(make_kept: Callable[..., Any]) -> None:
    """They are refused with the fix that the tables were given, and do not change."""
    with closing(make_kept(SECOND)) as database, database.writing() as sql:
        sql.run("insert into books (title) values ('a')")
        sql.run("alter table library_schema rename to library_version")
    with closing(make_kept(SECOND)) as database:
        for transaction in (database.reading, database.writing):
            with (
                pytest.raises(
                    StoreError, match="before the first release of Lorebind; restore the library"
                ),
                transaction(),
            ):
                pass


class Counting(Tables):
    """Tables that record in a row each time that they are made."""

    def finish(self, sql: Sql, version: int | None) -> None:
        if version is None:
            sql.insert("books", [{"title": "the first"}])


@pytest.mark.parametrize("database_for_each", [False, True])
def test_two_threads_at_once(make_kept: Callable[..., Any], database_for_each: bool) -> None:
    """Two threads both write, and the statements that make the tables run once."""
    tables = Counting("library", 1, [BOOKS])
    first = make_kept(tables)
    second = make_kept(tables) if database_for_each else first

    def write(database: Any) -> None:
        with database.writing() as sql:
            sql.insert("books", [{"title": "another"}])

    with closing(first), closing(second), ThreadPoolExecutor(2) as threads:
        list(threads.map(write, (first, second)))
        with first.reading() as sql:
            rows = sql.run("select title from books order by title")
    assert rows == [("another",), ("another",), ("the first",)]


@pytest.mark.parametrize("schema", [None, "shelves"])
def test_an_administrator_makes_them(dsn: str, schema: str | None) -> None:
    """With `ensure_schema: false`, the error has the SQL for new tables and for a migration."""
    address = PostgresAddress(dsn)
    settings: dict[str, Any] = {"ensure_schema": False, "own_schema": schema}
    for tables in (FIRST, SECOND):
        with closing(PostgresDatabase(address, tables, **settings)) as database:
            with (
                pytest.raises(StoreError, match="ensure_schema is false; create them") as caught,
                database.writing(),
            ):
                pass
            with address.connect(autocommit=True) as db:
                db.execute(str(caught.value).partition(":\n")[2])
            with database.writing() as sql:
                sql.insert("books", [{"title": tables.name}])
                assert sql.run("select version from library_schema") == [(tables.version,)]
    assert "alter table books" in str(caught.value)


def test_they_share_a_database(dsn: str) -> None:
    """Tables of two names have separate versions and separate locks."""
    address = PostgresAddress(dsn)
    other = Tables("archive", 7, ["create table if not exists papers (title [name])"])
    with (
        closing(PostgresDatabase(address, FIRST)) as library,
        closing(PostgresDatabase(address, other)) as archive,
    ):
        with library.writing() as sql, archive.writing() as also:
            sql.insert("books", [{"title": "a"}])
            also.insert("papers", [{"title": "b"}])
            assert also.run("select version from archive_schema") == [(7,)]
        with library.lock("door") as free, archive.lock("door") as also_free:
            assert (free, also_free) == (True, True)
