"""The table of `PgvectorStore`: its name, its SQL, and its rows in binary format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lorebind_config.errors import StoreError
from lorebind_config.namespace import digest
from lorebind_knowledge.database.postgres_rows import bigint
from lorebind_knowledge.stores.matrix import check_dimension
from lorebind_knowledge.stores.pgvector.filters import as_fields

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
}
_JSONB_VERSION = b"\x01"


class Table:
    """The table of all spaces of one store, with vectors of any dimension."""

    def __init__(self, name: str) -> None:
        """
        Args:
            name: the prefix of the table's name, a `SqlName`.
        """
        self.name = name
        self.quoted = f'"{name}_vectors"'

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
        ]

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
    """Return rows of the columns `space`, `number`, `embedding` and `fields`.

    Raises:
        StoreError: a vector has another dimension, or metadata that JSON cannot represent.
    """
    packed = _packed(space, vectors)
    index_uid = bigint(space.index_uid)
    rows: list[tuple[bytes, ...]] = []
    for vector, stored in zip(packed, vectors, strict=True):
        try:
            fields = as_fields(stored.metadata).encode()
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{space}: the metadata of vector {stored.number} is not JSON: {error}"
            ) from error
        rows.append((index_uid, bigint(stored.number), vector.tobytes(), _JSONB_VERSION + fields))
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
