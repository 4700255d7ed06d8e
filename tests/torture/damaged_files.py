"""Damage to a project's database file, including damage that SQLite itself does not notice."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.app.damage import LOUD, QUIET, change

VALUES: list[Any] = [
    None,
    "",
    "garbage",
    b"\xff\xfe\x00",
    -1,
    0,
    10**15,
    0.5,
    "{",
    "{}",
    "[]",
    "null",
    "[1, null]",
    '{"a": 1}',
    '"text"',
    b"\x00\x00\xc0\x7f" * 8,  # NaN
    b"\x00\x00\x80\x7f" * 256,  # infinity
]
"""Values that are written into any column, whatever its type."""


def damage(file: Path, case: random.Random) -> str:
    """Damage a database file in one way, and return a description of it."""
    return case.choice(_WAYS)(file, case)


def _change_values(file: Path, case: random.Random) -> str:
    with closing(sqlite3.connect(file)) as db:
        table, columns = _table(db, case)
        column, value = case.choice(columns), case.choice(VALUES)
        with db:
            _loosen(db, table)
            some = "" if case.random() < 0.5 else " where rowid % 2 = 0"
            db.execute(f'update "{table}" set "{column}" = ?{some}', (value,))
        return f"{table}.{column} = {value!r}{some}"


def _change_bytes_of_values(file: Path, case: random.Random) -> str:
    with closing(sqlite3.connect(file)) as db:
        table, columns = _table(db, case)
        column = case.choice(columns)
        with db:
            _loosen(db, table)
            rows = db.execute(f'select rowid, "{column}" from "{table}"').fetchall()
            for row, value in rows:
                changed = _garbled(value, case)
                db.execute(f'update "{table}" set "{column}" = ? where rowid = ?', (changed, row))
        return f"{table}.{column} garbled"


def _delete_rows(file: Path, case: random.Random) -> str:
    with closing(sqlite3.connect(file)) as db:
        table, _ = _table(db, case)
        with db:
            some = "" if case.random() < 0.5 else " where rowid % 2 = 0"
            db.execute(f'delete from "{table}"{some}')
        return f"delete from {table}{some}"


def _drop(file: Path, case: random.Random) -> str:
    with closing(sqlite3.connect(file)) as db:
        table, columns = _table(db, case)
        indexes = db.execute("select name from sqlite_master where type = 'index' and sql <> ''")
        statement = case.choice(
            [
                f'drop table "{table}"',
                f'alter table "{table}" drop column "{case.choice(columns)}"',
                f'alter table "{table}" rename column "{case.choice(columns)}" to other',
                f'alter table "{table}" rename to "{table}_other"',
                f'drop index "{case.choice([name for (name,) in indexes])}"',
            ]
        )
        with suppress(sqlite3.Error), db:
            db.execute(statement)
        return statement


def _change_bytes_of_file(file: Path, case: random.Random) -> str:
    data = bytearray(file.read_bytes())
    first = case.choice([0, 100, 4096])
    for _ in range(case.choice([1, 8, 64, 512])):
        data[case.randrange(first, len(data))] = case.randrange(256)
    file.write_bytes(data)
    return f"random bytes from {first}"


def _truncate(file: Path, case: random.Random) -> str:
    data = file.read_bytes()
    file.write_bytes(data[: case.choice([0, 1, 50, 100, 4096, len(data) // 2, len(data) - 1])])
    return "truncated"


def _replace_file(file: Path, case: random.Random) -> str:
    file.unlink()
    if case.random() < 0.3:
        file.mkdir()
        return "a folder"
    file.write_bytes(case.choice([b"no database\n" * 500, bytes(8192), case.randbytes(8192)]))
    return "another file"


def _run_statement(file: Path, case: random.Random) -> str:
    way = case.choice([*LOUD, *QUIET])
    change(file, (LOUD | QUIET)[way])
    return way


_WAYS: list[Callable[[Path, random.Random], str]] = [
    _run_statement,
    _run_statement,
    _change_values,
    _change_values,
    _change_bytes_of_values,
    _change_bytes_of_values,
    _delete_rows,
    _drop,
    _change_bytes_of_file,
    _truncate,
    _replace_file,
]


def _table(db: sqlite3.Connection, case: random.Random) -> tuple[str, list[str]]:
    names = db.execute(
        "select name from sqlite_master where type = 'table' and"
        " (name glob 'catalog_*' or name glob 'store_*')"
        " order by name"
    )
    table = case.choice([name for (name,) in names])
    return table, _columns(db, table)


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in db.execute(f'pragma table_info("{table}")')]


def _loosen(db: sqlite3.Connection, table: str) -> None:
    """Remove the constraints of a table, so that it can contain invalid rows."""
    columns = ", ".join(f'"{name}"' for name in _columns(db, table))
    rows = db.execute(f'select rowid, {columns} from "{table}"').fetchall()
    indexes = db.execute(
        "select sql from sqlite_master where type = 'index' and tbl_name = ? and sql <> ''",
        (table,),
    ).fetchall()
    db.execute(f'drop table "{table}"')
    db.execute(f'create table "{table}" ({columns})')
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f'insert into "{table}" (rowid, {columns}) values ({marks})', rows)
    for (statement,) in indexes:
        db.execute(statement.replace("CREATE UNIQUE", "CREATE").replace("create unique", "create"))


def _garbled(value: Any, case: random.Random) -> Any:
    """Return the value with one character or byte changed."""
    if not isinstance(value, str | bytes) or not value:
        return case.choice(VALUES)
    data = bytearray(value.encode() if isinstance(value, str) else value)
    data[case.randrange(len(data))] = case.randrange(32, 127)
    return data.decode(errors="replace") if isinstance(value, str) else bytes(data)
