"""The words of passages in SQLite's FTS5, with one table per index.

With a table of its own, the rarity of a word is counted over the live passages of its index only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from lorebind_knowledge.catalog.rows import damaged
from lorebind_knowledge.text.terms import index_terms

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from lorebind_knowledge.text.terms import Passage


class Postings(NamedTuple):
    """The passages that contain a word."""

    numbers: NDArray[np.int64]
    """Numbers of the passages, ascending, without duplicates."""
    times: NDArray[np.int64]
    """The number of occurrences in each of these passages."""


def add(db: sqlite3.Connection, space: int, passages: Sequence[Passage]) -> None:
    """Add the words of passages."""
    table = _create(db, space)
    db.executemany(f"insert into {table} (rowid, text) values (?, ?)", map(_row, passages))


def remove(db: sqlite3.Connection, space: int, passages: Sequence[Passage]) -> None:
    """Remove the words of passages. FTS5 stores no texts, so the same texts must be given again."""
    table = _create(db, space)
    delete = f"insert into {table} ({table}, rowid, text) values ('delete', ?, ?)"
    db.executemany(delete, map(_row, passages))


def postings(db: sqlite3.Connection, space: int, word: str) -> Postings | None:
    """Return the passages that contain a word, in its stored form; None if there are none."""
    import numpy as np

    vocabulary = f"temp.{_table(space)}_places"
    db.execute(
        f"create virtual table if not exists {vocabulary}"
        f" using fts5vocab (main, '{_table(space)}', 'instance')"
    )
    # One concatenated row is faster than a row per occurrence.
    rows = db.execute(f"select group_concat(doc, ' ') from {vocabulary} where term = ?", (word,))
    ((places,),) = rows
    if not places:
        return None
    return Postings(*np.unique(np.fromstring(places, np.int64, sep=" "), return_counts=True))


def totals(db: sqlite3.Connection, space: int) -> tuple[int, int]:
    """Return the number of passages, and the number of words in all of them."""
    # FTS5's own record of the averages: counting the rows would read the whole index.
    rows = db.execute(f"select block from {_table(space)}_data where id = 1").fetchall()
    counts = _varints(rows[0][0]) if rows else []
    if len(counts) not in (0, 2):
        raise damaged("the word counts of an index are not as expected")
    passages, words = counts or (0, 0)
    return passages, words


def lengths(db: sqlite3.Connection, space: int, numbers: Collection[int]) -> dict[int, int]:
    """Return the number of words of passages, by number; unknown passages are omitted."""
    sizes = db.execute(
        f"select id, sz from {_table(space)}_docsize where id in (select value from json_each(?))",
        (json.dumps(list(numbers)),),
    )
    return {number: sum(_varints(size)) for number, size in sizes}


def _varints(data: Any) -> list[int]:
    """Decode numbers that SQLite has packed: seven bits per byte, the highest first.

    https://www.sqlite.org/fileformat2.html#varint; no number here needs the ninth byte.
    """
    if type(data) is not bytes:
        raise damaged("the words of an index are not stored as expected")
    numbers, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    return numbers


def drop(db: sqlite3.Connection, space: int) -> None:
    """Delete all words of an index."""
    db.execute(f"drop table if exists temp.{_table(space)}_places")
    db.execute(f"drop table if exists {_table(space)}")


def _row(passage: Passage) -> tuple[int, str]:
    return passage.number, index_terms(passage.text, passage.language)


def _create(db: sqlite3.Connection, space: int) -> str:
    table = _table(space)
    db.execute(
        f"create virtual table if not exists {table}"
        # The input is already split into words; non-ASCII characters belong to words.
        " using fts5 (text, content='', tokenize='ascii')"
    )
    return table


def _table(space: int) -> str:
    return f"catalog_words_{space:016x}"
