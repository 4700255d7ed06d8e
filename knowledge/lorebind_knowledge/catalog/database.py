"""The catalog's database, and the embedded one: a SQLite file, or memory."""

from __future__ import annotations

import importlib
import os
import threading
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import create_engine, event, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from lorebind_knowledge.catalog import schema
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

    from sqlalchemy import Connection, Engine

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


def insert_of(dialect: str) -> Any:
    """The `insert` of a dialect, for its `on_conflict_…`; loaded only where it is used."""
    return importlib.import_module(f"sqlalchemy.dialects.{dialect}").insert


class SqliteDatabase:
    """A `Database` in one SQLite file, or in memory."""

    def __init__(self, path: Path | None) -> None:
        """
        Args:
            path: the SQLite file, made with its folder when first written; None is memory.
        """
        self.path = path
        self._engine: Engine | None = None
        self._owner = os.getpid()
        self._file: tuple[int, ...] | None = None
        self._nothing: SqliteDatabase | None = None
        self._opening = threading.Lock()
        # In memory there is one connection, and so one transaction at a time.
        self._turn = threading.Lock() if path is None else nullcontext()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if self.path is not None:
            make_data_folder(self.path)
        turn = nullcontext() if self.path is None else write_lock(self.path)
        with turn, self._transaction(self._open(), "BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        if self.path is not None and not self.path.exists():
            if self._nothing is None:
                self._nothing = SqliteDatabase(None)
            with self._nothing.reading() as connection:
                yield connection
            return
        still = nullcontext() if self.path is None else unchanged(self.path)
        with still, self._transaction(self._open(), "BEGIN") as connection:
            yield connection

    def close(self) -> None:
        with self._opening:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None
            if self._nothing is not None:
                self._nothing.close()

    def __str__(self) -> str:
        return f"catalog {self.path or 'in memory'}"

    @contextmanager
    def _transaction(self, engine: Engine, begin: str) -> Iterator[Connection]:
        try:
            with self._turn, engine.connect() as opened:
                connection = opened.execution_options(lorebind_begin=begin)
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            raise StoreError(f"{self}: {_advice(str(error.orig))}") from error

    def _open(self) -> Engine:
        with self._opening:
            if self._engine is not None and self.path is not None:
                if self._owner != os.getpid():
                    # After a fork the connections are the parent's: left alone, not closed.
                    self._engine.dispose(close=False)
                    self._engine = None
                elif self._file != file_identity(self.path):
                    # Somebody removed or replaced the file: what is open leads to the one before.
                    self._engine.dispose()
                    self._engine = None
            if self._engine is None:
                engine = _engine(self.path)
                self._migrate(engine)
                self._engine, self._owner = engine, os.getpid()
                self._file = file_identity(self.path) if self.path else None
            return self._engine

    def _migrate(self, engine: Engine) -> None:
        with self._transaction(engine, "BEGIN") as connection:
            has_tables = inspect(connection).has_table(schema.versions.name)
            if has_tables and is_current(connection, self):
                return
        with self._transaction(engine, "BEGIN IMMEDIATE") as connection:
            bring_up_to_date(connection)


def bring_up_to_date(connection: Connection) -> None:
    """Make the tables that are missing, and those of an earlier Lorebind into today's.

    To be called by one process at a time, in a transaction that writes.
    """
    if not inspect(connection).has_table(schema.versions.name):
        schema.metadata.create_all(connection)
        connection.execute(schema.versions.insert().values(version=schema.SCHEMA_VERSION))
        return
    version = connection.scalar(select(schema.versions.c.version)) or schema.SCHEMA_VERSION
    for step in range(version + 1, schema.SCHEMA_VERSION + 1):
        for statement in schema.MIGRATIONS[step]:
            connection.exec_driver_sql(statement)
    connection.execute(schema.versions.update().values(version=schema.SCHEMA_VERSION))


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


def _engine(path: Path | None) -> Engine:
    if path is None:
        engine = create_engine(
            "sqlite://",
            paramstyle="named",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
        )
    else:
        # Not by an address, in which `?` and `%` in the names of folders would have a meaning.
        engine = create_engine(
            "sqlite://",
            paramstyle="named",
            poolclass=QueuePool,
            creator=partial(connect, path, mode="rwc", timeout=BUSY_SECONDS),
        )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
    # sqlite3 would open transactions by itself, and late: it is told not to, and `_begin` does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute(f"PRAGMA wal_autocheckpoint = {PAGES_PER_CHECKPOINT}")
    cursor.close()


def _begin(connection: Connection) -> None:
    # A writer that starts as a reader can be refused half-way; one that starts as a writer waits.
    connection.exec_driver_sql(connection.get_execution_options()["lorebind_begin"])


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
        "no such": f"it is damaged; {_MOVE_AWAY}",
        "has no column": f"it is damaged; {_MOVE_AWAY}",
        "constraint failed": f"it is damaged; {_MOVE_AWAY}",
        "Could not decode": f"it is damaged; {_MOVE_AWAY}",
    }
    hint = next((text for sign, text in advice.items() if sign in message), "")
    return f"{message}; {hint}" if hint else message
