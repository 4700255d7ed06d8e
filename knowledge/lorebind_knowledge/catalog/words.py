"""The words of passages in SQLite's FTS5, one table for each index.

How rare a word is, is so counted over what searches find in that index, and over nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorebind_knowledge.bm25.query import query_words
from lorebind_knowledge.bm25.tokenize import TOKENIZER

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence


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
    # All of them: FTS5 ranks each anyway, and puts them into order in more time than it takes here.
    rows = db.execute(f"select rowid, -rank from {table} where {table} match ?", (wanted,))
    return dict(rows.fetchall())


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
