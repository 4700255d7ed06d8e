"""The words of one index in SQLite's FTS5, one table for each index.

How rare a word is, is so counted over the published records of that index alone: what is staged or
superseded does not count, nor does what another index holds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

TOKENIZER = "porter unicode61"

_SEARCHED = "context || char(10) || text"


def make_words(db: sqlite3.Connection, index_key: int) -> None:
    """Make the table of an index. It keeps no texts: those are in the records."""
    db.execute(
        f"create virtual table if not exists {_table(index_key)}"
        f" using fts5 (text, content='', tokenize='{TOKENIZER}')"
    )


def drop_words(db: sqlite3.Connection, index_key: int) -> None:
    db.execute(f"drop table if exists {_table(index_key)}")


def add_words(db: sqlite3.Connection, index_key: int, meant: str, values: object) -> None:
    """Let the words of the records count for which the condition `meant` holds."""
    db.execute(
        f"insert into {_table(index_key)} (rowid, text)"
        f" select row, {_SEARCHED} from vector_records where {meant}",
        values,  # type: ignore[arg-type]  # named or numbered parameters
    )


def remove_words(db: sqlite3.Connection, index_key: int, meant: str, values: object) -> None:
    """Let the words of the records, which are still there, no longer count."""
    table = _table(index_key)
    db.execute(
        f"insert into {table} ({table}, rowid, text)"
        f" select 'delete', row, {_SEARCHED} from vector_records where {meant}",
        values,  # type: ignore[arg-type]
    )


def ranked(
    db: sqlite3.Connection, index_key: int, words: Sequence[str], ids: Iterable[str] | None = None
) -> sqlite3.Cursor:
    """Records with any of the words, as (id, text, metadata, generation, BM25), the best first.

    FTS5 computes the join as it is read, so reading can stop early.

    Args:
        db: a transaction.
        index_key: the index.
        words: what to look for; one that comes twice counts twice.
        ids: only among these records, where they are given.
    """
    table = _table(index_key)
    # By rows, which FTS5 gives itself: to compare ids, each record with one of the words is read.
    among = (
        " and +f.rowid in (select row from vector_records indexed by vector_records_live"
        " where index_key = ?2 and live and id in (select value from json_each(?3)))"
    )
    return db.execute(
        f"select r.id, r.text, r.metadata, r.generation, -f.rank from {table} as f"
        " cross join vector_records as r on r.row = f.rowid"
        f" where {table} match ?1{'' if ids is None else among} order by f.rank",
        (
            " OR ".join(f'"{word}"' for word in words),
            *([] if ids is None else [index_key, json.dumps(list(ids))]),
        ),
    )


def _table(index_key: int) -> str:
    return f"vector_words_{index_key}"
