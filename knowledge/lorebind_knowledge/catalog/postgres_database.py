"""The catalog in PostgreSQL: its tables stand where those of the vectors do."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, event, inspect, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.schema import CreateIndex, CreateTable

from lorebind_knowledge.catalog import postgres_words, schema
from lorebind_knowledge.catalog.database import SqliteDatabase, bring_up_to_date, is_current
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.postgres.address import import_psycopg
from lorebind_knowledge.postgres.connections import idle_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Engine

    from lorebind_knowledge.postgres.address import PostgresAddress

_KEPT, _MORE = 2, 6
_SECONDS_TO_WAIT = 30

_RETIRE = (
    "UPDATE catalog_indexes SET state = 'retired',"
    " birth = 1 + floor(random() * 4611686018427387903)::bigint"
)
_WHAT_IS_KEPT = (
    "set it to true once, which keeps what is indexed in their schema; or ingest everything again, "
    "from cached vectors, and add the documents of collections again, after"
)

_of_the_parent: list[Engine] = []
"""Kept, because connections that are collected complain that nobody closed them."""


class PostgresDatabase:
    """A `Database` of SQLAlchemy's on psycopg. Its tables are made when it is first written."""

    def __init__(
        self,
        address: PostgresAddress,
        *,
        ensure_schema: bool = True,
        own_schema: str | None = None,
    ) -> None:
        """
        Args:
            address: the database.
            ensure_schema: make the tables; without it, an error says how to make them.
            own_schema: the schema of the tables, made with them; None means the connection's.
        """
        self._address = address
        self._schema = own_schema
        self._ensure_schema = ensure_schema
        self._engine: Engine | None = None
        self._owner = os.getpid()
        self._has_tables = False
        self._nothing = SqliteDatabase(None)
        self._opening = threading.Lock()
        self._driver_error: type[Exception] = import_psycopg().Error

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        engine = self._opened()
        if not self._has_tables:
            self._make_tables(engine)
        with self._named(), engine.begin() as connection:
            # A writer that is stopped in the middle loses the row of its lease before the lease.
            connection.exec_driver_sql(idle_limit())
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
        own = "current_schema()" if self._schema is None else "cast(:own as text)"
        key = text(f"select pg_try_advisory_lock({_number(name)} # hashtextextended({own}, 0))")
        if self._schema is not None:
            key = key.bindparams(own=self._schema)
        with self._named():
            holder = self._opened().connect().execution_options(isolation_level="AUTOCOMMIT")
            # Not the pool's any more: closing it is what frees the lock, whatever happened.
            holder.detach()
        try:
            with self._named():
                free = bool(holder.scalar(key))
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
            self._let_go(engine)

    def __str__(self) -> str:
        return f"catalog in PostgreSQL at {self._address}"

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, self._driver_error) as error:
            self._has_tables = False
            said = (isinstance(error, DBAPIError) and error.orig) or error
            raise StoreError(f"{self}: {self._address.advice(said)}") from error
        except PoolTimeoutError as error:
            raise StoreError(
                f"{self}: all {_KEPT + _MORE} connections have been in use for "
                f"{_SECONDS_TO_WAIT} s; try again when there is less to do"
            ) from error

    def _opened(self) -> Engine:
        with self._opening:
            if self._engine is not None and self._owner != os.getpid():
                self._let_go(self._engine)
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
                if self._schema is not None:
                    event.listen(self._engine, "begin", self._enter_schema)
            return self._engine

    def _let_go(self, engine: Engine) -> None:
        if self._owner == os.getpid():
            engine.dispose()
        else:  # after a fork the connections are the parent's: left alone, not closed
            _of_the_parent.append(engine)

    def _enter_schema(self, connection: Connection) -> None:
        # For the transaction only: a pooler may hand the connection to others.
        if connection.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            connection.exec_driver_sql(f"set local search_path to {_quoted(self._schema)}")

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

    def _version(self, engine: Engine) -> int | None:
        with self._named(), engine.begin() as connection:
            if not inspect(connection).has_table(schema.versions.name):
                return None
            return connection.scalar(select(schema.versions.c.version))

    def _bring_up_to_date(self, engine: Engine) -> None:
        if not self._ensure_schema:
            version = self._version(engine)
            what = "missing" if version is None else "of an earlier version"
            how = "make them with"
            if version is not None and version < schema.NUMBERED:
                how = _WHAT_IS_KEPT
            raise StoreError(
                f"{self}: its tables are {what}, and ensure_schema is false; {how}:\n"
                f"{self._schema_sql()}{catalog_sql(version)}"
            )
        with self._named(), engine.begin() as connection:
            connection.exec_driver_sql(idle_limit())
            # Other processes may be about to do the same.
            connection.execute(text(f"select pg_advisory_xact_lock({_number('making it')})"))
            if self._schema is not None:
                there = text("select to_regnamespace(:name) is not null")
                if not connection.scalar(there, {"name": _quoted(self._schema)}):
                    connection.exec_driver_sql(f"create schema {_quoted(self._schema)}")
            bring_up_to_date(connection)

    def _schema_sql(self) -> str:
        if self._schema is None:
            return ""
        name = _quoted(self._schema)
        return _script(f"CREATE SCHEMA IF NOT EXISTS {name}", f"SET search_path TO {name}")


def catalog_sql(version: int | None = None) -> str:
    """What makes the catalog's tables, for an administrator to run.

    Args:
        version: that of the tables which are there; None where there are none.
    """
    name, today = schema.versions.name, schema.SCHEMA_VERSION
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy says no types here
    made: list[object] = []
    for table in schema.metadata.sorted_tables:
        if version is None or (table.name in schema.NEW_TABLES and version < schema.NUMBERED):
            made.append(CreateTable(table).compile(dialect=dialect))
            made += [CreateIndex(index).compile(dialect=dialect) for index in table.indexes]
    made += postgres_words.SQL
    if version is None:
        return _script(*made, f"INSERT INTO {name} (version) VALUES ({today})")
    steps = [line for step in range(version, today) for line in schema.MIGRATIONS[step + 1]]
    if version < schema.NUMBERED:
        steps.append(_RETIRE)
    return _script(*steps, *made, f"UPDATE {name} SET version = {today}")


def _script(*statements: object) -> str:
    return "".join(f"{str(statement).strip()};\n" for statement in statements)


def _quoted(name: str | None) -> str:
    return f'"{name}"'


def _number(name: str) -> int:
    """PostgreSQL's locks are known by number."""
    return int(digest("lorebind catalog", name)[:15], 16)
