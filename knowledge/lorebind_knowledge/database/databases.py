"""The interface of a database, and its two kinds: SQLite and PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from lorebind_config.errors import StoreError
from lorebind_config.namespace import digest
from lorebind_knowledge.database.postgres_address import import_psycopg
from lorebind_knowledge.database.postgres_connections import IDLE_SECONDS, Connections
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.database.sqlite import SqliteDatabase
from lorebind_knowledge.database.tables import script
from lorebind_knowledge.plumbing.lanes import Threads

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import psycopg

    from lorebind_knowledge.database.postgres_address import PostgresAddress
    from lorebind_knowledge.database.tables import Tables


_LONGEST_NAME = 63
"""Bytes of a name in PostgreSQL."""


class Database(Protocol):
    """Transactions on the tables of a `Tables`, with errors that name the database.

    Safe to share among threads.
    """

    threads: Threads
    """The threads of functions that use it."""

    def writing(self) -> AbstractContextManager[Sql]:
        """Open a transaction that is committed at the end of the block, or rolled back.

        Raises:
            StoreError: the database failed. The message names the database and a suggested fix.
        """
        ...

    def reading(self) -> AbstractContextManager[Sql]:
        """Open a consistent snapshot. Missing tables read as empty and are not created."""
        ...

    def close(self) -> None:
        """Close open connections. The database opens new ones when it is used again."""
        ...


class EmbeddedDatabase:
    """A `Database` in one SQLite file, or in memory."""

    def __init__(self, path: Path | None, tables: Tables) -> None:
        self._name = f"{tables.name} {'in memory' if path is None else path.absolute()}"
        self._tables = tables
        self.threads = Threads()
        self._sqlite = SqliteDatabase(
            path,
            self._name,
            self._migrate,
            move_away=tables.move_away,
            elsewhere=tables.elsewhere,
        )

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
        sql, tables = Sql(db), self._tables
        if not tables.is_current(sql, self._name) or not tables.is_finished(sql):
            # Another process may do the same: the second one then finds the tables up to date.
            db.execute("BEGIN IMMEDIATE")
            tables.bring_up_to_date(sql)
            db.commit()


class PostgresDatabase:
    """A `Database` in PostgreSQL, whose tables are created when it is first written."""

    def __init__(
        self,
        address: PostgresAddress,
        tables: Tables,
        *,
        ensure_schema: bool = True,
        own_schema: str | Callable[[], str] | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        """
        Args:
            address: the database.
            tables: its tables.
            ensure_schema: whether to create the tables. If not, an error shows the SQL for it.
            own_schema: the schema of the tables, created with them, or a function that returns it
                at the first use; None means the connection's.
            idle_seconds: see there.
        """
        self._name = f"{tables.name} in PostgreSQL at {address}"
        self.key = address.key
        """Equal for databases with the same connections."""
        self.address, self.ensure_schema = address, ensure_schema
        self._tables, self._own_schema = tables, own_schema
        self._idle_seconds = idle_seconds
        self.threads = Threads()
        self._has_tables = False
        self._nothing = EmbeddedDatabase(None, tables)

    @cached_property
    def _schema(self) -> str | None:
        return self._own_schema() if callable(self._own_schema) else self._own_schema

    @cached_property
    def _connections(self) -> Connections:
        return Connections(
            self.address, self._name, own_schema=self._schema, idle_seconds=self._idle_seconds
        )

    @contextmanager
    def writing(self) -> Iterator[Sql]:
        if not self._has_tables and not self._find_tables():
            self._bring_up_to_date()
        with self._noticing_failures(), self._connections.writing() as db:
            yield Sql(db)

    @contextmanager
    def reading(self) -> Iterator[Sql]:
        if not self._has_tables and not self._find_tables():
            with self._nothing.reading() as sql:
                yield sql
            return
        with self._noticing_failures(), self._connections.reading() as db:
            yield Sql(db, self._connections.begin_reading)

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Try to take the lock of this name, and hold it until the end of the block.

        Yields whether the lock was free. The lock belongs to a connection of its own, so the
        server frees it when this process dies.
        """
        # One lock per schema: another schema may hold the tables of another project.
        key = f"{self._number(name)} # hashtextextended(coalesce(%s, current_schema()), 0)"
        # Held by a connection of its own, whose end frees it even if this process is killed.
        with self.session() as holder:
            tried = holder.execute(f"select pg_try_advisory_lock({key})", [self._schema])
            ((free,),) = tried.fetchall()
            try:
                yield free
            finally:
                # Explicitly, because the server may notice a closed connection only later.
                with suppress(import_psycopg().Error):
                    holder.execute("select pg_advisory_unlock_all()")

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection]:
        """Open a connection of its own in autocommit mode, for locks and notifications."""
        with self._connections.single() as connection:
            yield connection

    def limit_connections(self, count: int) -> None:
        """Allow the process at most this many connections for statements to this PostgreSQL.

        Call it before any is in use. Each lock and the notifications have one of their own.
        """
        self._connections.limit(count)

    def beside(self, tables: Tables, name: str) -> PostgresDatabase:
        """Return the database of other tables, in a schema of their own in the same PostgreSQL.

        Args:
            tables: the tables.
            name: the end of the schema's name; the name of this database's schema is before it.
        """
        return PostgresDatabase(
            self.address,
            tables,
            ensure_schema=self.ensure_schema,
            own_schema=partial(self.schema_beside, name),
        )

    def schema_beside(self, name: str, connection: psycopg.Connection | None = None) -> str:
        """Return the schema of the database that `beside` opens.

        Args:
            name: as for `beside`.
            connection: a connection to the same address; None means a new one if that is needed.

        Raises:
            StoreError: this database has the schema of its connections, and cannot be reached.
        """
        schema = self._schema
        if schema is None:
            # Not that of the pool: this database may be in no other use, and never closed.
            with self.session() if connection is None else nullcontext(connection) as db:
                ((schema,),) = db.execute("select current_schema()").fetchall()
        before = "lorebind" if schema in (None, "public") else schema
        beside = f"{before}_{name}"
        return beside if len(beside) <= _LONGEST_NAME else f"lorebind_{digest(before, name)[:40]}"

    def close(self) -> None:
        if "_connections" in vars(self):
            self._connections.leave()
        self._nothing.close()

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def _noticing_failures(self) -> Iterator[None]:
        """Forget that the tables exist after an outage: they may have changed."""
        try:
            yield
        except StoreError:
            self._has_tables = False
            raise

    def _find_tables(self) -> bool:
        """Return whether the tables exist; migrate those of an earlier version."""
        with self._connections.reading() as db:
            version = self._tables.version_in(Sql(db))
            current = self._tables.is_current(Sql(db), self._name)
            finished = not current or self._tables.is_finished(Sql(db))
        if version is not None and not current:
            self._bring_up_to_date(version)
        elif not finished:
            with self._changing_tables() as sql:
                self._tables.finish(sql, version)
        there = version is not None
        if there:  # never reset here: another thread may have found tables in the meantime
            self._has_tables = True
        return there

    def _bring_up_to_date(self, version: int | None = None) -> None:
        """Create the current tables, or migrate those of an earlier version."""
        if not self.ensure_schema:
            what = "missing" if version is None else "of an earlier version"
            raise StoreError(
                f"{self}: its tables are {what}, and ensure_schema is false; create them with:\n"
                f"{self._schema_sql()}{self._tables.script(version)}"
            )
        with self._changing_tables() as sql:
            db = sql.driver
            # Checked first: a role that may not create schemas may use an existing one.
            there = "select to_regnamespace(quote_ident(%s)) is not null"
            if self._schema is not None and not db.execute(there, [self._schema]).fetchall()[0][0]:
                db.execute(f'create schema "{self._schema}"')
            self._tables.bring_up_to_date(sql)
        self._has_tables = True

    @contextmanager
    def _changing_tables(self) -> Iterator[Sql]:
        """Open a write transaction for one process at a time, as others may want to migrate too."""
        with self._connections.writing() as db:
            db.execute(f"select pg_advisory_xact_lock({self._number('making it')})")
            yield Sql(db)

    def _schema_sql(self) -> str:
        if self._schema is None:
            return ""
        name = f'"{self._schema}"'
        return script(f"CREATE SCHEMA IF NOT EXISTS {name}", f"SET search_path TO {name}")

    def _number(self, name: str) -> int:
        """Return the number of a lock, as PostgreSQL identifies advisory locks by numbers."""
        # 60 bits, because such a number is a signed integer of 64.
        return int(digest(f"lorebind {self._tables.name}", name)[:15], 16)
