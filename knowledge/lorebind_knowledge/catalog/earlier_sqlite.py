"""Migration of the previous SQLite store, which stored texts, words and generations itself.

Its contents are moved into the current tables: the catalog's, and those of the vector store.
Searches find the same chunks as before, under the same row numbers.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import sqlite3

_VERSION = 2
_ROWS_AT_ONCE = 2000
_NAMES = "tenant", "project", "scope", "kb", "number"
_STORE = (
    "create table if not exists store_spaces"
    " (space integer primary key, dimension integer not null, version integer not null)",
    "create table if not exists store_vectors (row integer primary key, space integer not null,"
    " number integer not null, embedding blob not null, unique (space, number))",
)


def adopt(db: sqlite3.Connection) -> None:
    """Move the tables of the previous version into the current ones, in a write transaction.

    Indexes that the catalog does not know stay where they are, and so do the tables of still
    earlier versions.
    """
    if not db.execute("select 1 from sqlite_master where name = 'vector_schema'").fetchone():
        return
    if db.execute("select version from vector_schema").fetchall() != [(_VERSION,)]:
        return
    for statement in _STORE:
        db.execute(statement)
    same = " and ".join(f"old.{name} = new.{name}" for name in _NAMES)
    known = db.execute(
        "select old.key, old.dimension, new.rowid from vector_indexes as old"
        f" join catalog_indexes as new on {same}"
    ).fetchall()
    for key, dimension, index in known:
        _adopt(db, key, dimension, index, secrets.randbits(62))
    if not db.execute("select 1 from vector_indexes limit 1").fetchone():
        for table in ("vector_records", "vector_indexes", "vector_schema"):
            db.execute(f"drop table {table}")


def _adopt(db: sqlite3.Connection, key: int, dimension: int, index: int, space: int) -> None:
    ours = {"key": key, "space": space, "dimension": dimension, "index": index}
    db.execute(
        "insert into catalog_versions (space, uri, generation, state)"
        " select :space, uri, max(generation), 1 from vector_records"
        " where index_key = :key and live group by uri",
        ours,
    )
    db.execute(
        "insert into catalog_chunks (space, version, number, id, context, text, metadata)"
        " select :space, v.version, r.row, r.id, r.context, r.text, r.metadata"
        " from vector_records as r join catalog_versions as v"
        " on v.space = :space and v.uri = r.uri where r.index_key = :key and r.live order by r.row",
        ours,
    )
    last = 0
    while rows := db.execute(
        "select row, vector from vector_records where index_key = ? and live and row > ?"
        " order by row limit ?",
        (key, last, _ROWS_AT_ONCE),
    ).fetchall():
        last = rows[-1][0]
        db.executemany(
            "insert into store_vectors (space, number, embedding) values (?, ?, ?)",
            [(space, row, _at_length_1(blob)) for row, blob in rows],
        )
    ours["version"] = secrets.randbits(62)
    db.execute("insert into store_spaces values (:space, :dimension, :version)", ours)
    db.execute(
        "update catalog_indexes set birth = :space, version = 1,"
        " live = (select count(*) from catalog_chunks where space = :space),"
        " entered = (select count(*) from catalog_chunks where space = :space),"
        " next_number = (select coalesce(max(number), 0) + 1 from catalog_chunks"
        " where space = :space) where rowid = :index",
        ours,
    )
    db.execute(f"drop table vector_words_{key}")  # the words are tokenized again
    db.execute("delete from vector_records where index_key = :key", ours)
    db.execute("delete from vector_indexes where key = :key", ours)


def _at_length_1(blob: bytes) -> Any:
    vector = np.frombuffer(blob, "<f4").astype(np.float64)
    length = float(np.sqrt((vector * vector).sum())) or 1.0
    return (vector / length).astype("<f4").tobytes()
