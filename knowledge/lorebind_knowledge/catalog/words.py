"""The words of passages in SQLite's FTS5, one table for each index.

How rare a word is, is so counted over what searches find in that index, and over nothing else.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from lorebind_knowledge.bm25.figures import Postings
from lorebind_knowledge.bm25.tokenize import kept_words
from lorebind_knowledge.catalog.rows import damaged

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    from lorebind_knowledge.bm25.tokenize import Passage


def add(db: sqlite3.Connection, space: int, passages: Sequence[Passage]) -> None:
    """Let the words of passages count."""
    table = _made(db, space)
    db.executemany(f"insert into {table} (rowid, text) values (?, ?)", map(_row, passages))


def remove(db: sqlite3.Connection, space: int, passages: Sequence[Passage]) -> None:
    """Let them no longer count. FTS5 keeps no texts, so that it must be given the same again."""
    table = _made(db, space)
    delete = f"insert into {table} ({table}, rowid, text) values ('delete', ?, ?)"
    db.executemany(delete, map(_row, passages))


def postings(db: sqlite3.Connection, space: int, word: str) -> Postings | None:
    """Where a word is found, as it is kept; None if nowhere."""
    vocabulary = f"temp.{_table(space)}_places"
    db.execute(
        f"create virtual table if not exists {vocabulary}"
        f" using fts5vocab (main, '{_table(space)}', 'instance')"
    )
    # One line is quicker than a row for each time that it is said.
    said = db.execute(f"select group_concat(doc, ' ') from {vocabulary} where term = ?", (word,))
    ((places,),) = said
    if not places:
        return None
    return Postings(*np.unique(np.fromstring(places, np.int64, sep=" "), return_counts=True))


def totals(db: sqlite3.Connection, space: int) -> tuple[int, int]:
    """How many passages there are, and how many words they have together."""
    rows = db.execute(f"select block from {_table(space)}_data where id = 1").fetchall()
    counts = _varints(rows[0][0]) if rows else []
    if len(counts) not in (0, 2):
        raise damaged("the words of an index are not counted as they should be")
    passages, words = counts or (0, 0)
    return passages, words


def lengths(db: sqlite3.Connection, space: int, numbers: Collection[int]) -> dict[int, int]:
    """How many words passages have, by number; those that cannot be found are left out."""
    sizes = db.execute(
        f"select id, sz from {_table(space)}_docsize where id in (select value from json_each(?))",
        (json.dumps(list(numbers)),),
    )
    return {number: sum(_varints(size)) for number, size in sizes}


def _varints(data: Any) -> list[int]:
    """The numbers that SQLite has packed: seven bits of a byte each, the highest first.

    https://www.sqlite.org/fileformat2.html#varint; none here takes the ninth byte.
    """
    if type(data) is not bytes:
        raise damaged("the words of an index are not where they should be")
    found, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            found.append(value)
            value = 0
    return found


def drop(db: sqlite3.Connection, space: int) -> None:
    """Forget all words of an index."""
    db.execute(f"drop table if exists temp.{_table(space)}_places")
    db.execute(f"drop table if exists {_table(space)}")


def _row(passage: Passage) -> tuple[int, str]:
    return passage.number, kept_words(passage.text, passage.language)


def _made(db: sqlite3.Connection, space: int) -> str:
    table = _table(space)
    db.execute(
        f"create virtual table if not exists {table}"
        # It is given words: all that is not ASCII is part of one.
        " using fts5 (text, content='', tokenize='ascii')"
    )
    return table


def _table(space: int) -> str:
    return f"catalog_words_{space:016x}"
