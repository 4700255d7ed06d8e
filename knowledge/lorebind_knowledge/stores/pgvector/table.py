"""The table of `PgvectorStore`: its name, its SQL, and its rows in binary format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_config.errors import StoreError
from lorebind_config.namespace import digest
from lorebind_knowledge.database.postgres_rows import bigint
from lorebind_knowledge.stores.matrix import check_dimension
from lorebind_knowledge.stores.pgvector.filters import as_dates, as_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from numpy.typing import NDArray

    from lorebind_knowledge.records import Matrix, Partition, Vector
    from lorebind_knowledge.stores.base import StoredVector

_COLUMNS = {
    "space": "bigint not null",
    "number": "bigint not null",
    "embedding": "vector not null",
    # The metadata, see `filters`.
    "fields": "jsonb not null",
    "dates": "jsonb not null",
}
_JSONB_VERSION = b"\x01"
_CLEARED_AT_ONCE = 10_000
_COUNT_CHANGES = """
begin
  if tg_op = 'TRUNCATE' then
    delete from {counts};
  else
    insert into {counts} (space, vectors)
      select space, case tg_op when 'INSERT' then count(*) else -count(*) end
      from changed group by space;
  end if;
  return null;
end"""


class Table:
    """The table of all spaces of one store, with vectors of any dimension."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: the prefix of the table's name, a `SqlName`.
        """
        self.name = name
        self.quoted = f'"{name}_vectors"'
        self.counts = f'"{name}_counts"'

    def sql(self) -> list[str]:
        """Return the statements that create it in a database with the extension."""
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        return [
            f"create table {self.quoted} ({columns}, primary key (space, number))",
            # An exact search reads every vector, so they stay in their rows instead of in TOAST.
            f"alter table {self.quoted} alter column embedding set storage main",
            # Without fastupdate, whose pending list would slow down every filter. PostgreSQL
            # chooses the name, because a renamed table keeps the names of its indexes.
            f"create index on {self.quoted}"
            " using gin (fields jsonb_path_ops) with (fastupdate = off)",
            *self._count_sql(),
        ]

    def _count_sql(self) -> list[str]:
        """Return the statements that let the database count the vectors of each space.

        Counting them at each ingest would read a whole index. Triggers count whatever is written,
        also by others: a vector that an administrator deletes must be missed. Each statement adds a
        row, because writers would wait for each other to change the same row, or deadlock.
        """
        name = self.counts
        execute = f"for each statement execute function {name}()"
        return [
            # If it is there, it counts the rows of a table that is gone.
            f"drop table if exists {name}",
            f"create table {name} (space bigint not null, vectors bigint not null)",
            f"create index on {name} (space)",
            f"create or replace function {name}() returns trigger language plpgsql"
            f" set search_path from current as $${_COUNT_CHANGES.format(counts=name)}$$",
            f"create trigger count_added after insert on {self.quoted}"
            f" referencing new table as changed {execute}",
            f"create trigger count_deleted after delete on {self.quoted}"
            f" referencing old table as changed {execute}",
            f"create trigger count_truncated after truncate on {self.quoted} {execute}",
        ]

    def count(self, db: psycopg.Connection, space: Partition) -> int:
        """Return the number of vectors in a space."""
        counted = f"sum(vectors) from {self.counts}"
        if not self._has_counts(db):
            counted = f"count(*) from {self.quoted}"
        row = db.execute(f"select {counted} where space = {space.index_uid}").fetchone()
        return int(row[0] or 0) if row else 0

    def merge_counts(self, db: psycopg.Connection, space: Partition) -> None:
        """Replace the rows that count a space's vectors by one with their sum.

        Concurrent calls are possible, because each row is part of one sum only.
        """
        if self._has_counts(db):
            db.execute(
                f"with gone as (delete from {self.counts} where space = {space.index_uid}"
                f" returning vectors) insert into {self.counts} (space, vectors)"
                f" select {space.index_uid}, sum(vectors) from gone having sum(vectors) <> 0"
            )

    def clear(self, db: psycopg.Connection, space: Partition) -> None:
        """Delete all vectors of a space."""
        last = -1
        of_space = f"from {self.quoted} where space = {space.index_uid} and number"
        # In parts, because PostgreSQL keeps all rows of a statement for the triggers that count.
        while True:
            some = f"select number {of_space} > {last} order by number limit {_CLEARED_AT_ONCE}"
            row = db.execute(f"select max(number) from ({some}) as part").fetchone()
            if not row or row[0] is None:
                break
            db.execute(f"delete {of_space} > {last} and number <= {row[0]}")
            last = row[0]
        self.merge_counts(db, space)

    def _has_counts(self, db: psycopg.Connection) -> bool:
        """Return whether the vectors are counted; those of a renamed table are not."""
        return db.execute("select to_regclass(%s) is null", [self.counts]).fetchone() == (False,)

    def is_there(self, db: psycopg.Connection, store: str) -> bool:
        """Return whether the table exists.

        Raises:
            StoreError: a table of this name has other columns.
        """
        # Not with `to_regclass`, which may cache in a transaction that the table is missing.
        rows = db.execute(
            "select attname from pg_attribute join pg_class as c on c.oid = attrelid"
            " where relname = %s and pg_table_is_visible(c.oid) and attnum > 0",
            [self.quoted.strip('"')],
        )
        columns = {name for (name,) in rows}
        if columns and (missing := sorted(_COLUMNS.keys() - columns)):
            raise StoreError(
                f"{store}: the table {self.quoted} is not one of Lorebind's, because it has no "
                f"{', '.join(missing)}; name another table for the vector database"
            )
        return bool(columns)

    def make(self, db: psycopg.Connection, store: str, *, allowed: bool) -> None:
        """Create the extension and the table if missing; other processes may do the same.

        Args:
            db: a transaction.
            store: the beginning of messages.
            allowed: whether it may create anything. If not, the error has the statements.

        Raises:
            StoreError: it is not allowed or not possible.
        """
        row = db.execute(
            "select (select extversion from pg_extension where extname = 'vector'),"
            " current_setting('server_encoding')"
        ).fetchone()
        extension, encoding = row or (None, None)
        if encoding != "UTF8":
            raise StoreError(
                f"{store}: the database has the encoding {encoding}, which cannot store every "
                "text; create one with: create database … encoding 'UTF8' template template0"
            )
        statements = ([] if extension else ["create extension vector"]) + self.sql()
        if not allowed:
            what = "table" if extension else "extension vector and table"
            raise StoreError(
                f"{store}: {what} {self.quoted} missing, and ensure_schema is false; run:\n"
                + "".join(f"{statement};\n" for statement in statements)
            )
        db.execute(f"select pg_advisory_xact_lock({self.lock('table')})")
        if not extension:
            _make_extension(db, store)
        if not self.is_there(db, store):
            for statement in self.sql():
                db.execute(statement)

    def lock(self, purpose: str) -> int:
        """Return the number of an advisory lock that only users of this table take."""
        return int(digest("lorebind pgvector", purpose, self.name)[:15], 16)


def _make_extension(db: psycopg.Connection, store: str) -> None:
    from psycopg import errors

    try:
        db.execute("create extension if not exists vector")
    except errors.InsufficientPrivilege as error:
        raise StoreError(
            f"{store}: the extension vector is missing, and this role may not create it; let an "
            "administrator of the database run: create extension vector"
        ) from error
    except (errors.FeatureNotSupported, errors.UndefinedFile) as error:
        raise StoreError(
            f"{store}: the server does not have pgvector; install it there (as the package "
            "postgresql-<version>-pgvector), then try again"
        ) from error


def rows_of(space: Partition, vectors: Sequence[StoredVector]) -> list[tuple[bytes, ...]]:
    """Return rows of the columns `space`, `number`, `embedding`, `fields` and `dates`.

    Raises:
        StoreError: a vector has another dimension, or metadata that JSON cannot represent.
    """
    packed = _packed(space, vectors)
    index_uid = bigint(space.index_uid)
    rows: list[tuple[bytes, ...]] = []
    for vector, stored in zip(packed, vectors, strict=True):
        try:
            texts = as_fields(stored.metadata), as_dates(stored.metadata)
            metadata = [_JSONB_VERSION + text.encode() for text in texts]
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{space}: the metadata of vector {stored.number} is not JSON: {error}"
            ) from error
        rows.append((index_uid, bigint(stored.number), vector.tobytes(), *metadata))
    return rows


def _packed(space: Partition, vectors: Sequence[StoredVector]) -> NDArray[np.void]:
    check_dimension(space, vectors)
    packed = np.zeros(len(vectors), _kind(space.dimension))
    packed["dimension"] = space.dimension
    packed["values"] = [vector.vector for vector in vectors]
    return packed


def vectors_of(values: Sequence[bytes], dimension: int) -> Matrix:
    """Return vectors from their binary format, shape (values, dimension)."""
    matrix: Matrix = np.frombuffer(b"".join(values), _kind(dimension))["values"].astype(np.float32)
    return matrix


def vector_text(vector: Vector) -> str:
    """Return a vector in pgvector's text format."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def _kind(dimension: int) -> np.dtype[np.void]:
    return np.dtype([("dimension", ">u2"), ("unused", ">u2"), ("values", ">f4", (dimension,))])
