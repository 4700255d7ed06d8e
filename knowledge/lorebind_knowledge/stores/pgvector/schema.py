"""The tables behind `PgvectorStore`: what they are, how they are made, and how they are checked.

One table holds what is published and is LangChain's to read: its first four columns are those that
`langchain_postgres.PGVectorStore` looks for. What is staged stands in a second one of the same
columns, and publishing moves rows, so that whoever reads the first sees published records only, and
its indexes hold nothing else. A third table names the indexes and counts what each has published.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError, UsageError
from lorebind_knowledge.identity import digest

if TYPE_CHECKING:
    import psycopg

SCHEMA_VERSION = 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,54}")

_COLUMNS = {
    "langchain_id": 'text collate "C" not null',
    "content": "text not null",
    "embedding": "vector not null",
    "langchain_metadata": "json not null",
    "tenant": "text not null",
    "project": "text not null",
    "scope": "text not null",
    "kb": "text not null",
    "number": "integer not null",
    "uri": "text not null",
    "generation": "bigint not null",
    # The four names and the number in one, for the indexes.
    "index_key": "bigint not null",
    # The metadata again, for filters: `langchain_metadata` keeps it to the letter.
    "fields": "jsonb not null",
    # How often each word is in the content and what it stands under, and how many there are, for
    # BM25. The words have the index's key in front: a search need not pass over those of others.
    "terms": "jsonb not null",
    "length": "integer not null",
}
COLUMNS = tuple(_COLUMNS)
_INDEX_COLUMNS = (
    "key",
    "tenant",
    "project",
    "scope",
    "kb",
    "number",
    "dimension",
    "records",
    "words",
)


class Tables:
    """The names of a store's tables, and the statements that make them."""

    def __init__(self, table: str) -> None:
        """
        Raises:
            UsageError: the name cannot be a table's.
        """
        if not _NAME.fullmatch(table):
            raise UsageError(
                f"{table!r} cannot be the name of a table: it starts with a letter and goes on "
                "with letters, digits and '_', at most 55 in all"
            )
        self.name = table
        self.live = f'"{table}"'
        self.staged = f'"{table}_staged"'
        self.indexes = f'"{table}_indexes"'
        self.version = f'"{table}_version"'

    def sql(self) -> list[str]:
        """What makes the tables in a database that has the extension."""
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        # A document is looked for by a hash: an index cannot take an address of any length.
        both = ["primary key (index_key, langchain_id, generation)"]
        statements = [
            f"create table {self.version} (version integer not null)",
            f"create table {self.indexes} ("
            "key bigint generated always as identity primary key, "
            'tenant text collate "C" not null, project text collate "C" not null, '
            'scope text collate "C" not null, kb text collate "C" not null, '
            "number integer not null, dimension integer not null, "
            "records bigint not null default 0, words bigint not null default 0, "
            "unique (tenant, project, scope, kb, number))",
        ]
        for table in (self.live, self.staged):
            statements += [
                f"create table {table} ({', '.join([columns, *both])})",
                # An exact search reads every vector: beside their rows, not in another place.
                f"alter table {table} alter column embedding set storage main",
                f"create index on {table} (index_key, md5(uri))",
            ]
        return [
            *statements,
            f"create index on {self.live} using gin (fields jsonb_path_ops)",
            f"create index on {self.live} using gin (terms)",
            f"insert into {self.version} (version) values ({SCHEMA_VERSION})",
        ]

    def found(self, db: psycopg.Connection, store: str) -> bool:
        """Whether the tables are there.

        Raises:
            StoreError: they are somebody else's, or of a newer version; or the database cannot
                hold texts or vectors.
        """
        # Not by `to_regclass`: within a transaction it may remember that there was none.
        rows = db.execute(
            "select relname, current_setting('server_encoding') from pg_class"
            " where relname = any(%s::text[]) and pg_table_is_visible(oid)"
            " union all select '', current_setting('server_encoding')",
            [[name.strip('"') for name in (self.live, self.version)]],
        ).fetchall()
        if (encoding := rows[0][1]) != "UTF8":
            raise StoreError(
                f"{store}: the database has the encoding {encoding}, which cannot hold every "
                "text; make one with: create database … encoding 'UTF8' template template0"
            )
        if len(rows) == 1:
            return False
        for name, wanted in (
            (self.live, COLUMNS),
            (self.staged, COLUMNS),
            (self.indexes, _INDEX_COLUMNS),
        ):
            self._check_columns(db, name, wanted, store)
        (number,) = db.execute(f"select max(version) from {self.version}").fetchone() or (None,)
        if number is None or number > SCHEMA_VERSION:
            raise StoreError(
                f"{store}: was made by a newer version of Lorebind (schema {number}, this one "
                f"understands {SCHEMA_VERSION}); upgrade Lorebind, or name another table"
            )
        return True

    def make(self, db: psycopg.Connection, store: str, *, allowed: bool) -> None:
        """Make what is missing, extension and tables; other processes may do the same.

        Raises:
            StoreError: something is missing and may not or cannot be made.
        """
        extension = db.execute("select 1 from pg_extension where extname = 'vector'").fetchone()
        if not allowed:
            missing = ([] if extension else ["create extension vector"]) + self.sql()
            what = f"table {self.name}" if extension else f"extension vector and table {self.name}"
            raise StoreError(
                f"{store}: {what} missing, and ensure_schema is false; make what is missing with:\n"
                + "".join(f"{statement};\n" for statement in missing)
            )
        lock = int(digest("lorebind pgvector", self.name)[:15], 16)
        db.execute(f"select pg_advisory_xact_lock({lock})")
        if not extension:
            self._make_extension(db, store)
        if not self.found(db, store):
            for statement in self.sql():
                db.execute(statement)

    def _make_extension(self, db: psycopg.Connection, store: str) -> None:
        from psycopg import errors

        try:
            db.execute("create extension if not exists vector")
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{store}: the extension vector is missing, and this role may not make it; let an "
                "administrator of the database run: create extension vector"
            ) from error
        except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
            raise StoreError(
                f"{store}: the server does not have pgvector; install it there (as the package "
                "postgresql-<version>-pgvector), then try again"
            ) from error

    def _check_columns(
        self, db: psycopg.Connection, table: str, wanted: tuple[str, ...], store: str
    ) -> None:
        rows = db.execute(
            "select attname from pg_attribute where attrelid = to_regclass(%s)"
            " and attnum > 0 and not attisdropped",
            [table],
        )
        missing = sorted(set(wanted) - {name for (name,) in rows})
        if missing:
            raise StoreError(
                f"{store}: the table {table} is not one of Lorebind's, it has no "
                f"{', '.join(missing)}; name another table for the vector database"
            )
