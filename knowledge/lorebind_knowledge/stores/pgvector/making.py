"""Making the relations behind `PgvectorStore` where they are missing, or of an older version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.errors import StoreError
from lorebind_knowledge.identity import digest
from lorebind_knowledge.stores.pgvector.migration import migrate
from lorebind_knowledge.stores.pgvector.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    import psycopg

    from lorebind_knowledge.stores.pgvector.schema import Tables


def make(tables: Tables, db: psycopg.Connection, store: str, *, allowed: bool) -> None:
    """Make what is missing, extension and tables; other processes may do the same.

    Raises:
        StoreError: something is missing and may not or cannot be made.
    """
    extension = db.execute("select 1 from pg_extension where extname = 'vector'").fetchone()
    missing = tables.sql(with_view=not tables.is_langchains(db))
    if not allowed and tables.found(db, store) is None:
        what = f"table {tables.name}" if extension else f"extension vector and table {tables.name}"
        raise StoreError(
            f"{store}: {what} missing, and ensure_schema is false; make what is missing with:\n"
            + "".join(
                f"{statement};\n"
                for statement in ([] if extension else ["create extension vector"]) + missing
            )
        )
    lock = int(digest("lorebind pgvector", tables.name)[:15], 16)
    db.execute(f"select pg_advisory_xact_lock({lock})")
    if not extension:
        _make_extension(db, store)
    number = tables.found(db, store)
    if number is None:
        for statement in missing:
            db.execute(statement)
    elif number < SCHEMA_VERSION:
        migrate(db, tables, store, allowed=allowed)


def _make_extension(db: psycopg.Connection, store: str) -> None:
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
