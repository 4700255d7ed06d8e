"""The words of passages in PostgreSQL.

A row has the words of one passage as numbers, and how often each of them occurs in it. A word's
number is computed from the word and its index, so that a search does not read the passages of
other indexes. It has 64 bits: a collision among a million words is unlikely.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from lorebind_knowledge.catalog.words import Postings
from lorebind_knowledge.database.postgres_rows import array, bigint, insert_rows, integer
from lorebind_knowledge.text.terms import index_terms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg

    from lorebind_knowledge.text.terms import Passage

SQL = (
    "create table if not exists catalog_words (space bigint not null, number bigint not null,"
    " terms bigint[] not null, times integer[] not null, length integer not null,"
    " primary key (space, number))",
    "create index if not exists catalog_words_terms on catalog_words using gin (terms)",
    "create table if not exists catalog_word_counts (space bigint primary key,"
    " passages bigint not null, words bigint not null)",
)
"""The statements that create the tables."""

# PostgreSQL's type ids of bigint and integer.
_BIGINT, _INTEGER = 20, 23
_REMEMBERED = 32_768


def add(db: psycopg.Connection, space: int, passages: Sequence[Passage]) -> None:
    """Add the words of passages."""
    counted = [Counter(index_terms(passage.text, passage.language).split()) for passage in passages]
    lengths = [words.total() for words in counted]
    insert_rows(
        db,
        "catalog_words (space, number, terms, times, length)",
        [
            (
                bigint(space),
                bigint(passage.number),
                array(_BIGINT, [_term(space, word) for word in words]),
                array(_INTEGER, [integer(times) for times in words.values()]),
                integer(length),
            )
            for passage, words, length in zip(passages, counted, lengths, strict=True)
        ],
    )
    db.execute(
        "insert into catalog_word_counts as c (space, passages, words) values (%s, %s, %s)"
        " on conflict (space) do update set"
        " passages = c.passages + excluded.passages, words = c.words + excluded.words",
        [space, len(lengths), sum(lengths)],
    )


def remove(db: psycopg.Connection, space: int, passages: Sequence[Passage]) -> None:
    """Remove the words of passages."""
    db.execute(
        "with gone as (delete from catalog_words where space = %(space)s"
        " and number = any(%(numbers)s::bigint[]) returning length)"
        " update catalog_word_counts set passages = passages - (select count(*) from gone),"
        " words = words - (select coalesce(sum(length), 0) from gone) where space = %(space)s",
        {"space": space, "numbers": [passage.number for passage in passages]},
    )


def postings(db: psycopg.Connection, space: int, word: str) -> Postings | None:
    """Return the passages that contain a word, in its stored form; None if there are none."""
    import numpy as np

    row = db.execute(_PLACES, {"space": space, "word": _number(space, word)}).fetchone()
    if row is None or not row[0]:
        return None
    numbers, times = np.array(row, np.int64)
    order = np.argsort(numbers)
    return Postings(numbers[order], times[order])


def totals(db: psycopg.Connection, space: int) -> tuple[int, int]:
    """Return the number of passages, and the number of words in all of them."""
    query = "select passages, words from catalog_word_counts where space = %s"
    passages, words = db.execute(query, [space]).fetchone() or (0, 0)
    return passages, words


def lengths(db: psycopg.Connection, space: int, numbers: Collection[int]) -> dict[int, int]:
    """Return the number of words of passages, by number; unknown passages are omitted."""
    query = "select number, length from catalog_words where space = %s and number = any(%s)"
    return dict(db.execute(query, [space, list(numbers)]).fetchall())


def drop(db: psycopg.Connection, space: int) -> None:
    """Delete all words of an index."""
    for table in ("catalog_words", "catalog_word_counts"):
        db.execute(f"delete from {table} where space = %s", [space])


# The word's number already implies the index. `space + 0` keeps PostgreSQL from using the primary
# key, with which it would read the whole index.
_PLACES = """
    select array_agg(number), array_agg(times[array_position(terms, %(word)s)]) from catalog_words
    where space + 0 = %(space)s and terms @> array[%(word)s::bigint]
"""


def _number(space: int, word: str) -> int:
    return int.from_bytes(_term(space, word), "big", signed=True)


@lru_cache(_REMEMBERED)
def _term(space: int, word: str) -> bytes:
    """Return the number of a word, as 8 bytes."""
    return hashlib.sha256(f"{space}:{word}".encode()).digest()[:8]
