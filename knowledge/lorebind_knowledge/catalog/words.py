"""The words of passages in SQLite's FTS5, one table for each index.

How rare a word is, is so counted over what searches find in that index, and over nothing else.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.bm25.documents import Postings
from lorebind_knowledge.bm25.query import query_words
from lorebind_knowledge.bm25.tokenize import TOKENIZER, wanted_words

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence

SAME_SCORE = 1e-6
"""Scores are shares of the best figure, in so many decimals: closer figures make the same score."""
_FEW = 256


def add(db: sqlite3.Connection, space: int, passages: Sequence[tuple[int, str]]) -> None:
    """Let the words of passages count, each given with its number."""
    table = _made(db, space)
    db.executemany(f"insert into {table} (rowid, text) values (?, ?)", passages)


def remove(db: sqlite3.Connection, space: int, passages: Sequence[tuple[int, str]]) -> None:
    """Let them no longer count. FTS5 keeps no texts, so that it must be given the same again."""
    table = _made(db, space)
    db.executemany(f"insert into {table} ({table}, rowid, text) values ('delete', ?, ?)", passages)


def figures(
    db: sqlite3.Connection, space: int, question: str, k: int, also: Collection[int]
) -> dict[int, float]:
    """The BM25 of passages that hold any word of a question, by number; higher is better.

    Args:
        db: a transaction.
        space: the index; something has been published in it.
        question: its words are looked for; one that comes twice counts twice.
        k: the best so many are among them, with all that tie with the last; more may be.
        also: these are among them too, those that hold a word.
    """
    table = _table(space)
    words = query_words(question)
    if not words:
        return {}
    wanted = " OR ".join(f'"{word}"' for word in words)
    matching = f"select rowid, -rank as figure from {table} where {table} match ?"
    if not also and k < _FEW:
        # FTS5 ranks every passage; but few of them are quicker to pick out there than here.
        best = db.execute(f"{matching} order by figure desc limit {_FEW}", (wanted,)).fetchall()
        if len(best) < _FEW or best[-1][1] < best[k - 1][1] - SAME_SCORE * best[0][1]:
            return dict(best)
    return dict(db.execute(matching, (wanted,)).fetchall())


def postings(db: sqlite3.Connection, space: int, question: str) -> list[Postings]:
    """Of each word of a question the passages that hold it; words that none holds are left out."""
    vocabulary = f"temp.{_table(space)}_places"
    db.execute(
        f"create virtual table if not exists {vocabulary}"
        f" using fts5vocab (main, '{_table(space)}', 'instance')"
    )
    found = []
    for word, weight in wanted_words(question).items():
        query = f"select group_concat(doc, ' ') from {vocabulary} where term = ?"
        ((places,),) = db.execute(query, (word,))
        if places:
            found.append(Postings(weight, np.array(places.split(), np.int64)))
    return found


def total_length(db: sqlite3.Connection, space: int) -> int:
    """How many words all passages have together."""
    ((counts,),) = db.execute(f"select block from {_table(space)}_data where id = 1")
    _, length = _varints(counts)
    return length


def lengths(db: sqlite3.Connection, space: int, numbers: Collection[int]) -> dict[int, int]:
    """How many words passages have, by number; those that cannot be found are left out."""
    sizes = db.execute(
        f"select id, sz from {_table(space)}_docsize where id in (select value from json_each(?))",
        (json.dumps(list(numbers)),),
    )
    return {number: _varints(size)[0] for number, size in sizes}


def _varints(data: bytes) -> list[int]:
    """The numbers that SQLite has packed: seven bits of a byte each, the highest first.

    https://www.sqlite.org/fileformat2.html#varint; none here takes the ninth byte.
    """
    found, value = [], 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            found.append(value)
            value = 0
    return found


def drop(db: sqlite3.Connection, space: int) -> None:
    """Forget all words of an index."""
    db.execute(f"drop table if exists {_table(space)}")


def _made(db: sqlite3.Connection, space: int) -> str:
    table = _table(space)
    db.execute(
        f"create virtual table if not exists {table}"
        f" using fts5 (text, content='', tokenize='{TOKENIZER}')"
    )
    return table


def _table(space: int) -> str:
    return f"catalog_words_{space:016x}"
