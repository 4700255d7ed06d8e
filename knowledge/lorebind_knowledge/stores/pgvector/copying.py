"""Rows that PostgreSQL takes in while the next ones are made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lorebind_knowledge.stores.pgvector.rows import HEAD, TAIL
from lorebind_knowledge.stores.pgvector.schema import WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future

    import psycopg

    from lorebind_knowledge.stores.pgvector.rows import Row
    from lorebind_knowledge.stores.pgvector.schema import Tables


def copy_in(db: psycopg.Connection, tables: Tables, blocks: Iterable[list[Row]]) -> None:
    """Write blocks of rows, each by a COPY of its own: of one in binary, PostgreSQL keeps a
    thousand rows back before it begins with the indexes, which are most of the work.
    """
    with ThreadPoolExecutor(1, "lorebind-pgvector-copy") as thread:
        written: Future[None] | None = None
        for block in blocks:
            if written is not None:
                written.result()
            written = thread.submit(_copy, db, tables, block)
        if written is not None:
            written.result()


def _copy(db: psycopg.Connection, tables: Tables, block: list[Row]) -> None:
    statement = f"copy {tables.rows} ({', '.join(WRITTEN)}) from stdin (format binary)"
    with db.cursor().copy(statement) as copy:
        copy.write(HEAD + b"".join(row.binary for row in block) + TAIL)
