"""COPY in PostgreSQL's binary format: many rows in one statement, packed by the caller."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

_HEAD, _TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_BIGINT, _INTEGER, _SIZE = struct.Struct(">iq"), struct.Struct(">ii"), struct.Struct(">i")
# Its dimensions, a flag for nulls, the type of its members, their count, the number of the first.
_ARRAY = struct.Struct(">5i")


def copy_rows(db: psycopg.Connection, target: str, rows: Iterable[bytes]) -> None:
    """Write rows into a table.

    Args:
        db: a transaction.
        target: the table and the names of its columns, as `table (a, b)`.
        rows: each the count of its columns in two bytes, then the values as made below.
    """
    with db.cursor().copy(f"copy {target} from stdin (format binary)") as copy:
        copy.write(b"".join([_HEAD, *rows, _TAIL]))


def sized(value: bytes) -> bytes:
    """A value of any type in its binary format, which every value has its size before."""
    return _SIZE.pack(len(value)) + value


def bigint(value: int) -> bytes:
    return _BIGINT.pack(8, value)


def integer(value: int) -> bytes:
    return _INTEGER.pack(4, value)


def array(kind: int, members: list[bytes]) -> bytes:
    """An array of values as made above; `kind` is the number of their type."""
    return sized(_ARRAY.pack(1, 0, kind, len(members), 1) + b"".join(members))
