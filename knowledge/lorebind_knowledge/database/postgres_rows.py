"""Inserting many rows with one statement.

COPY and pipelines are not used: if the process is suspended or cut off in the middle, the server
waits for the rest and holds the locks. It ends a transaction that is idle, see `IDLE_SECONDS`.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.database.postgres_address import import_psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_BIGINT = struct.Struct(">q")
_MOST_VALUES = 65_535
"""PostgreSQL's maximum number of values in a statement."""


def insert_rows(
    db: psycopg.Connection, target: str, rows: Sequence[Sequence[Any]], after: str = ""
) -> None:
    """Insert rows into a table.

    Args:
        db: a transaction.
        target: the table and the names of its columns, for example `table (a, b)`.
        rows: the values of each row. Bytes are sent unchanged: for a binary column, or packed in
            the binary format of another type, as by `bigint`.
        after: the end of the statement, for example `on conflict do nothing`.
    """
    if not rows:
        return
    # Numbered parameters, because psycopg would parse a long statement with others each time.
    cursor = import_psycopg().RawCursor(db)
    cursor.adapters.register_dumper(bytes, _as_it_is())
    width = len(rows[0])
    at_once = _MOST_VALUES // width
    for start in range(0, len(rows), at_once):
        some = rows[start : start + at_once]
        values = [value for row in some for value in row]
        cursor.execute(f"insert into {target} {_values(width, len(some))} {after}", values)


@lru_cache(maxsize=32)
def _values(width: int, count: int) -> str:
    rows = (range(first, first + width) for first in range(1, 1 + count * width, width))
    return "values " + ", ".join(f"({', '.join(f'${number}' for number in row)})" for row in rows)


@cache
def _as_it_is() -> Any:
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class AsItIs(Dumper):
        """Sends bytes without a type: the server knows the type of the column."""

        format = Format.BINARY

        def dump(self, obj: Any) -> Any:
            return obj

    return AsItIs


def bigint(value: int) -> bytes:
    return _BIGINT.pack(value)
