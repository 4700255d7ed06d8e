"""Many rows inserted by one statement.

Neither COPY nor a pipeline: when the process that owes the rest was stopped or cut off, the server
waits for it and holds its locks. A transaction without a statement is ended, see `IDLE_SECONDS`.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from lorebind_knowledge.postgres.address import import_psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_BIGINT, _INTEGER, _SIZE = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">i")
# Its dimensions, a flag for nulls, the type of its members, their count, the number of the first.
_ARRAY = struct.Struct(">5i")
_MOST_VALUES = 65_535
"""PostgreSQL takes no more in a statement."""


def insert_rows(
    db: psycopg.Connection, target: str, rows: Sequence[Sequence[Any]], after: str = ""
) -> None:
    """Write rows into a table.

    Args:
        db: a transaction.
        target: the table and the names of its columns, as `table (a, b)`.
        rows: the values of each. Bytes are sent as they are: to a column of bytes, or packed in the
            binary format of another type, as by the functions below.
        after: ends the statement, as `on conflict do nothing`.
    """
    if not rows:
        return
    # Numbered as the server reads them: psycopg would parse a long statement anew each time.
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
        """Leaves the type to the server, which knows the columns."""

        format = Format.BINARY

        def dump(self, obj: Any) -> Any:
            return obj

    return AsItIs


def bigint(value: int) -> bytes:
    return _BIGINT.pack(value)


def integer(value: int) -> bytes:
    return _INTEGER.pack(value)


def array(kind: int, members: list[bytes]) -> bytes:
    """An array of packed values; `kind` is the number of their type."""
    packed = b"".join([_SIZE.pack(len(member)) + member for member in members])
    return _ARRAY.pack(1, 0, kind, len(members), 1) + packed
