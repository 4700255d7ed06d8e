"""The catalog in PostgreSQL: its tables stand where those of the vectors do."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.schema import CreateTable

from lorebind_knowledge.catalog import schema
from lorebind_knowledge.catalog.database import SqliteDatabase, bring_up_to_date, is_current
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

    from lorebind_knowledge.catalog.postgres import PostgresAddress

_KEPT, _MORE = 2, 6
_SECONDS_TO_WAIT = 30


class PostgresDatabase:
    """A `Database` of SQLAlchemy's on psycopg. Its tables are made when it is first written."""

    def __init__(self, address: PostgresAddress, *, ensure_schema: bool = True) -> None:
        """
        Args:
            address: the database.
            ensure_schema: make the tables; without it, an error says how to make them.
        """
        self._address = address
        self._ensure_schema = ensure_schema
        self._engine: Engine | None = None
        self._owner = os.getpid()
        self._has_tables = False
        self._nothing = SqliteDatabase(None)
        self._opening = threading.Lock()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        engine = self._opened()
        if not self._has_tables:
            self._make_tables(engine)
        with self._named(), engine.begin() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        engine = self._opened()
        if not self._has_tables and not self._find_tables(engine):
            with self._nothing.reading() as connection:
                yield connection
            return
        with self._named(), engine.connect() as opened:
            connection = opened.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            with connection.begin():
                yield connection

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Whether the lock of this name was free; if so it is held to the end of the block.

        It belongs to a connection of its own, so the server frees it when this process dies.
        """
        # One for each schema, another may hold another project's catalog.
        key = f"{_number(name)} # hashtextextended(current_schema(), 0)"
        with self._named():
            holder = self._opened().connect().execution_options(isolation_level="AUTOCOMMIT")
            # Not the pool's any more: closing it is what frees the lock, whatever happened.
            holder.detach()
        try:
            with self._named():
                free = bool(holder.scalar(text(f"select pg_try_advisory_lock({key})")))
            yield free
        finally:
            # Before: the server may take its time to notice that a connection was closed.
            with suppress(DBAPIError):
                holder.execute(text("select pg_advisory_unlock_all()"))
            holder.close()

    def close(self) -> None:
        with self._opening:
            engine, self._engine = self._engine, None
        self._nothing.close()
        if engine is not None:
            engine.dispose(close=self._owner == os.getpid())

    def __str__(self) -> str:
        return f"catalog in PostgreSQL at {self._address}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            self._has_tables = False
            said = error.orig or error
            raise StoreError(f"{self}: {self._address.advice(said)}") from error
        except PoolTimeoutError as error:
            raise StoreError(
                f"{self}: all {_KEPT + _MORE} connections have been in use for "
                f"{_SECONDS_TO_WAIT} s; try again when there is less to do"
            ) from error

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is not None and self._owner != os.getpid():
                # After a fork the connections are the parent's: left alone, not closed.
                self._engine.dispose(close=False)
                self._engine = None
            if self._engine is None:
                self._owner = os.getpid()
                self._engine = create_engine(
                    "postgresql+psycopg://",
                    creator=lambda: self._address.connect(autocommit=False),
                    pool_size=_KEPT,
                    max_overflow=_MORE,
                    pool_timeout=_SECONDS_TO_WAIT,
                    pool_pre_ping=True,
                )
            return self._engine

    def _find_tables(self, engine: Engine) -> bool:
        with self._named(), engine.begin() as connection:
            found = inspect(connection).has_table(schema.versions.name)
            current = found and is_current(connection, self)
        if found and not current:
            self._bring_up_to_date(engine)
        self._has_tables = found
        return found

    def _make_tables(self, engine: Engine) -> None:
        if self._find_tables(engine):
            return
        self._bring_up_to_date(engine)
        self._has_tables = True

    def _bring_up_to_date(self, engine: Engine) -> None:
        if not self._ensure_schema:
            raise StoreError(
                f"{self}: its tables are missing or of an earlier version, and ensure_schema is "
                f"false; make them with:\n{catalog_sql()}"
            )
        with self._named(), engine.begin() as connection:
            # Other processes may be about to do the same.
            connection.execute(text(f"select pg_advisory_xact_lock({_number('making it')})"))
            bring_up_to_date(connection)


def catalog_sql() -> str:
    """What makes the catalog's tables, for an administrator to run."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy says no types here
    tables = [
        CreateTable(table).compile(dialect=dialect) for table in schema.metadata.sorted_tables
    ]
    version = f"INSERT INTO {schema.versions.name} (version) VALUES ({schema.SCHEMA_VERSION})"
    return "".join(f"{str(statement).strip()};\n" for statement in (*tables, version))


def _number(name: str) -> int:
    """PostgreSQL's locks are known by number."""
    return int(digest("lorebind catalog", name)[:15], 16)
