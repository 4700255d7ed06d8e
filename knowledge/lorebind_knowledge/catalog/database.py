"""The catalog's database: a SQLite file, or memory; `PostgresDatabase` is another."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from lorebind_knowledge.catalog import earlier_postgres, earlier_sqlite, earlier_words, schema
from lorebind_knowledge.catalog.sql import Sql
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.sqlite.database import MOVE_AWAY, SqliteDatabase

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


class Database(Protocol):
    """Transactions on the catalog, with its errors named. Safe to share among threads."""

    def writing(self) -> AbstractContextManager[Sql]:
        """A transaction that is committed at the end of the block, or not at all.

        Raises:
            StoreError: the database refused something; the message names it and what to do.
        """
        ...

    def reading(self) -> AbstractContextManager[Sql]:
        """One consistent view. What was not made yet reads as empty, and is not made."""
        ...

    def close(self) -> None:
        """Give back what is held open; it is opened again when needed."""
        ...


class EmbeddedDatabase:
    """A `Database` in one SQLite file, or in memory."""

    def __init__(self, path: Path | None) -> None:
        self._name = f"catalog {'in memory' if path is None else path.absolute()}"
        self._sqlite = SqliteDatabase(path, self._name, self._migrate)

    @contextmanager
    def writing(self) -> Iterator[Sql]:
        with self._sqlite.writing() as db:
            yield Sql(db)

    @contextmanager
    def reading(self) -> Iterator[Sql]:
        with self._sqlite.reading() as db:
            yield Sql(db)

    def close(self) -> None:
        self._sqlite.close()

    def __str__(self) -> str:
        return self._name

    def _migrate(self, db: sqlite3.Connection) -> None:
        sql = Sql(db)
        if not is_current(sql, self._name) or earlier_words.are_left(sql):
            db.execute("BEGIN IMMEDIATE")
            bring_up_to_date(sql)
            db.commit()


def version_of(sql: Sql) -> int | None:
    """The version of the tables; None where there are none."""
    if not sql.has_table("catalog_version"):
        return None
    rows = sql.run("select version from catalog_version")
    return rows[0][0] if rows else None


def is_current(sql: Sql, name: str) -> bool:
    """Whether the tables are there, and are as this Lorebind knows them.

    Raises:
        StoreError: they were made by a newer one.
    """
    version = version_of(sql)
    if version is None:
        return False
    if type(version) is not int or version < 1:
        raise StoreError(f"{name}: its version is damaged: {version!r}; {MOVE_AWAY}")
    if version > schema.SCHEMA_VERSION:
        raise StoreError(
            f"{name}: was written by a newer Lorebind (schema {version}, this one knows "
            f"{schema.SCHEMA_VERSION}); upgrade with: pip install -U lorebind"
        )
    return version == schema.SCHEMA_VERSION


def bring_up_to_date(sql: Sql) -> None:
    """Make the tables that are missing, and those of an earlier Lorebind into today's.

    To be called by one process at a time, in a transaction that writes.
    """
    version = version_of(sql)
    if version is not None:
        for statement in schema.steps(version):
            sql.run(statement)
    for statement in schema.statements(postgres=sql.is_postgres):
        sql.run(statement)
    if version is not None and version < schema.NUMBERED:
        _number_indexes(sql)
    earlier_words.split_again(sql)
    sql.run("delete from catalog_version")
    sql.run("insert into catalog_version (version) values (:today)", today=schema.SCHEMA_VERSION)


def _number_indexes(sql: Sql) -> None:
    """Indexes of a version whose stores kept texts and words: what could not be brought along is
    retired, so that it is not searched, and built anew by the next ingest from cached vectors."""
    (earlier_postgres if sql.is_postgres else earlier_sqlite).adopt(sql.driver)
    columns = "tenant, project, scope, kb, number"
    for row in sql.run(f"select {columns} from catalog_indexes where birth = 0"):
        this = dict(zip(columns.split(", "), row, strict=True))
        sql.run(
            "update catalog_indexes set birth = :birth, state = 'retired' where "
            + " and ".join(f"{name} = :{name}" for name in this),
            birth=secrets.randbits(62),
            **this,
        )
