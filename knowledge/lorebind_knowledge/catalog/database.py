"""The catalog's database, and the embedded one: a SQLite file, or memory."""

from __future__ import annotations

import secrets
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import and_, create_engine, inspect, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from lorebind_knowledge.catalog import earlier_postgres, earlier_sqlite, postgres_words, schema
from lorebind_knowledge.catalog.sqlite_pool import SqlitePool
from lorebind_knowledge.data_folder import (
    PAGES_PER_CHECKPOINT,
    connect,
    file_identity,
    make_data_folder,
    unchanged,
    write_lock,
)
from lorebind_knowledge.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sqlalchemy import Connection

BUSY_SECONDS = 30.0


class Database(Protocol):
    """Transactions on the catalog, with its errors named. Safe to share among threads."""

    def writing(self) -> AbstractContextManager[Connection]:
        """A transaction that is committed at the end of the block, or not at all.

        Raises:
            StoreError: naming the database and the way out, for whatever it refuses.
        """
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """One consistent view. What was not made yet reads as empty, and is not made."""
        ...

    def close(self) -> None:
        """Give back what is held open; it is opened again when needed."""
        ...


class SqliteDatabase:
    """A `Database` in one SQLite file, or in memory. A store of vectors may share it."""

    def __init__(self, path: Path | None, *, for_catalog: bool = True) -> None:
        """
        Args:
            path: the SQLite file, made with its folder when first written; None is memory.
            for_catalog: make the catalog's tables, and refuse those of a newer Lorebind.
        """
        self.path = None if path is None else path.absolute()
        self._for_catalog = for_catalog
        self._engine = create_engine(
            "sqlite://",
            paramstyle="named",
            poolclass=NullPool,
            creator=self._connect,
            # What begins and ends transactions is said to the driver, in a tenth of the time.
            isolation_level="AUTOCOMMIT",
        )
        self._pool = SqlitePool(self.path, self._open)
        self._nothing: SqliteDatabase | None = None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self.path is not None:
            make_data_folder(self.path)
        # A writer that starts as a reader can be refused half-way; one that starts as one waits.
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        if self.path is None:
            with self._transaction("BEGIN") as connection:
                yield connection
        elif file_identity(self.path) is None:
            if self._nothing is None:
                self._nothing = SqliteDatabase(None, for_catalog=self._for_catalog)
            with self._nothing.reading() as connection:
                yield connection
        else:
            with unchanged(self.path), self._transaction("BEGIN") as connection:
                yield connection

    def close(self) -> None:
        self._pool.close()
        if self._nothing is not None:
            self._nothing.close()

    def __str__(self) -> str:
        return f"catalog {self.path or 'in memory'}"

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        turn = None if self.path is None or begin == "BEGIN" else write_lock(self.path)
        try:
            with self._pool.lent(turn) as connection:
                driver: Any = connection.connection.driver_connection
                try:
                    driver.execute(begin)
                    yield connection
                    driver.commit()
                except BaseException:
                    driver.rollback()
                    raise
        except (DBAPIError, sqlite3.Error) as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error)
            raise StoreError(f"{self}: {_advice(said)}") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"{self}: not valid Unicode: {error}") from error

    def _open(self) -> Connection:
        connection = self._engine.connect()
        try:
            if self._for_catalog:
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            return sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        # Not by an address, in which `?` and `%` in the names of folders would have a meaning.
        connection = connect(self.path, mode="rwc", timeout=BUSY_SECONDS)
        try:
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_PER_CHECKPOINT}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: Connection) -> None:
        if inspect(connection).has_table(schema.versions.name) and is_current(connection, self):
            return
        driver: Any = connection.connection.driver_connection
        driver.execute("BEGIN IMMEDIATE")
        bring_up_to_date(connection)
        driver.commit()


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables that are missing, and those of an earlier Lorebind into today's.

    To be called by one process at a time, in a transaction that writes.
    """
    if not inspect(connection).has_table(schema.versions.name):
        _make_tables(connection)
        connection.execute(schema.versions.insert().values(version=schema.SCHEMA_VERSION))
        return
    version = connection.scalar(select(schema.versions.c.version)) or schema.SCHEMA_VERSION
    for step in range(version + 1, schema.SCHEMA_VERSION + 1):
        for statement in schema.MIGRATIONS[step]:
            connection.exec_driver_sql(statement)
    _make_tables(connection)
    if version < schema.NUMBERED:
        _number_indexes(connection)
    connection.execute(schema.versions.update().values(version=schema.SCHEMA_VERSION))


def _make_tables(connection: Connection) -> None:
    schema.metadata.create_all(connection)
    if connection.dialect.name == "postgresql":
        for statement in postgres_words.SQL:
            connection.exec_driver_sql(statement)


def _number_indexes(connection: Connection) -> None:
    """Indexes of a version whose stores kept texts and words: what could not be brought along is
    retired, so that it is not searched, and built anew by the next ingest from cached vectors."""
    driver: Any = connection.connection.driver_connection
    earlier = earlier_sqlite if connection.dialect.name == "sqlite" else earlier_postgres
    earlier.adopt(driver)
    indexes = schema.indexes
    unknown = indexes.c.birth == 0
    for row in connection.execute(select(*indexes.primary_key).where(unknown)).all():
        this = and_(*(indexes.c[name] == value for name, value in row._mapping.items()))
        connection.execute(
            update(indexes).where(this).values(birth=secrets.randbits(62), state="retired")
        )


def is_current(connection: Connection, database: Database) -> bool:
    """Whether the tables are as this Lorebind knows them.

    Raises:
        StoreError: they were made by a newer one.
    """
    version = connection.scalar(select(schema.versions.c.version))
    if version is not None and (type(version) is not int or version < 1):
        raise StoreError(f"{database}: its version is damaged: {version!r}; {_MOVE_AWAY}")
    if version is not None and version > schema.SCHEMA_VERSION:
        raise StoreError(
            f"{database}: was written by a newer Lorebind (schema {version}, this one knows "
            f"{schema.SCHEMA_VERSION}); upgrade with: pip install -U lorebind"
        )
    return version == schema.SCHEMA_VERSION


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers go on while one writes. Only the first switch of a new file may have to wait."""
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite does not wait for this one lock by itself.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


_MOVE_AWAY = "move the file away, then ingest again"


def _advice(message: str) -> str:
    advice = {
        "locked": "another process holds it; wait for it to end, or stop it",
        "readonly": "make the file and its folder writable",
        "unable to open": "make the file and its folder readable and writable",
        "disk is full": "free some space, then run again: nothing is lost",
        "disk I/O error": "make room on the disk, or mend it, then run again: nothing is lost",
        "not a database": _MOVE_AWAY,
        "malformed": _MOVE_AWAY,
        "corrupt": _MOVE_AWAY,
        "vtable constructor failed": f"it is damaged; {_MOVE_AWAY}",
        "access permission denied": "give this user the right to read and write the file",
        "no such module: fts5": "this Python's SQLite has no FTS5; use another Python",
        "no such": f"it is damaged; {_MOVE_AWAY}",
        "has no column": f"it is damaged; {_MOVE_AWAY}",
        "constraint failed": f"it is damaged; {_MOVE_AWAY}",
        "Could not decode": f"it is damaged; {_MOVE_AWAY}",
    }
    hint = next((text for sign, text in advice.items() if sign in message), "")
    return f"{message}; {hint}" if hint else message
