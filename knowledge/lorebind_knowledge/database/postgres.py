"""Tables in a PostgreSQL database."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lorebind_knowledge.database.embedded import EmbeddedDatabase
from lorebind_knowledge.database.sql import Sql
from lorebind_knowledge.database.tables import script
from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.postgres.address import import_psycopg
from lorebind_knowledge.postgres.connections import Connections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lorebind_knowledge.database.tables import Tables
    from lorebind_knowledge.postgres.address import PostgresAddress


class PostgresDatabase:
    """A `Database` whose tables are made when it is first written."""

    def __init__(
        self,
        address: PostgresAddress,
        tables: Tables,
        *,
        ensure_schema: bool = True,
        own_schema: str | None = None,
    ) -> None:
        """
        Args:
            address: the database.
            tables: what it holds.
            ensure_schema: make the tables; without it, an error says how to make them.
            own_schema: the schema of the tables, made with them; None means the connection's.
        """
        self._name = f"{tables.name} in PostgreSQL at {address}"
        self._tables = tables
        self._schema = own_schema
        self._ensure_schema = ensure_schema
        self._connections = Connections(address, self._name, own_schema=own_schema)
        self._has_tables = False
        self._nothing = EmbeddedDatabase(None, tables)

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
            yield Sql(db)

    @contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Whether the lock of this name was free; if so it is held to the end of the block.

        It belongs to a connection of its own, so the server frees it when this process dies.
        """
        # One for each schema, another may hold another project's tables.
        key = f"{self._number(name)} # hashtextextended(coalesce(%s, current_schema()), 0)"
        with self._connections.single() as holder:
            tried = holder.execute(f"select pg_try_advisory_lock({key})", [self._schema])
            ((free,),) = tried.fetchall()
            try:
                yield free
            finally:
                # Now: the server may take its time to notice that a connection was closed.
                with suppress(import_psycopg().Error):
                    holder.execute("select pg_advisory_unlock_all()")

    def close(self) -> None:
        self._connections.close_idle()
        self._nothing.close()

    def __str__(self) -> str:
        return self._name

    @contextmanager
    def _noticing_failures(self) -> Iterator[None]:
        """After an outage, the tables may be others."""
        try:
            yield
        except StoreError:
            self._has_tables = False
            raise

    def _find_tables(self) -> bool:
        """Whether there are tables; those of an earlier version are brought up to date."""
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
        if there:  # another thread may know of them already, after this one has looked
            self._has_tables = True
        return there

    def _bring_up_to_date(self, version: int | None = None) -> None:
        """Make today's tables, out of those of an earlier version if there are some."""
        if not self._ensure_schema:
            what = "missing" if version is None else "of an earlier version"
            how = "make them with" if version is None else self._tables.by_hand(version)[0]
            raise StoreError(
                f"{self}: its tables are {what}, and ensure_schema is false; {how}:\n"
                f"{self._schema_sql()}{self._tables.script(version)}"
            )
        with self._changing_tables() as sql:
            db = sql.driver
            # Asked first: a role that may not make schemas may use one that is there.
            there = "select to_regnamespace(quote_ident(%s)) is not null"
            if self._schema is not None and not db.execute(there, [self._schema]).fetchall()[0][0]:
                db.execute(f'create schema "{self._schema}"')
            self._tables.bring_up_to_date(sql)
        self._has_tables = True

    @contextmanager
    def _changing_tables(self) -> Iterator[Sql]:
        """A transaction for one process at a time: others may be about to do the same."""
        with self._connections.writing() as db:
            db.execute(f"select pg_advisory_xact_lock({self._number('making it')})")
            yield Sql(db)

    def _schema_sql(self) -> str:
        if self._schema is None:
            return ""
        name = f'"{self._schema}"'
        return script(f"CREATE SCHEMA IF NOT EXISTS {name}", f"SET search_path TO {name}")

    def _number(self, name: str) -> int:
        """PostgreSQL's locks are known by number."""
        return int(digest(f"lorebind {self._tables.name}", name)[:15], 16)
