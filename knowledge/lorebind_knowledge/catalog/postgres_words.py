"""The words of passages in PostgreSQL, ranked by the BM25 of SQLite's FTS5.

A row has the words of one passage as numbers, and how often each of them is in it. A word's number
is made from the word and its index, so that a search does not pass over the passages of other
indexes. It has 64 bits: of a million words no two are likely to share one.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from lorebind_knowledge.bm25.documents import K1, B, Postings
from lorebind_knowledge.bm25.tokenize import count_words, wanted_words
from lorebind_knowledge.catalog.words import SAME_SCORE
from lorebind_knowledge.postgres.rows import array, bigint, insert_rows, integer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg

SQL = (
    "create table if not exists catalog_words (space bigint not null, number bigint not null,"
    " terms bigint[] not null, times integer[] not null, length integer not null,"
    " primary key (space, number))",
    "create index if not exists catalog_words_terms on catalog_words using gin (terms)",
    "create table if not exists catalog_word_counts (space bigint primary key,"
    " passages bigint not null, words bigint not null)",
)
"""The statements that make the tables."""

# What PostgreSQL calls the types bigint and integer.
_BIGINT, _INTEGER = 20, 23
_REMEMBERED = 32_768


def add(db: psycopg.Connection, space: int, passages: Sequence[tuple[int, str]]) -> None:
    """Let the words of passages count, each given with its number."""
    counted = count_words([text for _, text in passages])
    lengths = [words.total() for words in counted]
    insert_rows(
        db,
        "catalog_words (space, number, terms, times, length)",
        [
            (
                bigint(space),
                bigint(number),
                array(_BIGINT, [_term(space, word) for word in words]),
                array(_INTEGER, [integer(times) for times in words.values()]),
                integer(length),
            )
            for (number, _), words, length in zip(passages, counted, lengths, strict=True)
        ],
    )
    db.execute(
        "insert into catalog_word_counts as c (space, passages, words) values (%s, %s, %s)"
        " on conflict (space) do update set"
        " passages = c.passages + excluded.passages, words = c.words + excluded.words",
        [space, len(lengths), sum(lengths)],
    )


def remove(db: psycopg.Connection, space: int, passages: Sequence[tuple[int, str]]) -> None:
    """Let them no longer count."""
    db.execute(
        "with gone as (delete from catalog_words where space = %(space)s"
        " and number = any(%(numbers)s::bigint[]) returning length)"
        " update catalog_word_counts set passages = passages - (select count(*) from gone),"
        " words = words - (select coalesce(sum(length), 0) from gone) where space = %(space)s",
        {"space": space, "numbers": [number for number, _ in passages]},
    )


def figures(
    db: psycopg.Connection, space: int, question: str, k: int, also: Collection[int]
) -> dict[int, float]:
    """The BM25 of passages that hold any word of a question, by number; higher is better.

    Args:
        db: a transaction.
        space: the index.
        question: its words are looked for; one that comes twice counts twice.
        k: the best so many are among them, with all that tie with the last; more may be.
        also: these are among them too, those that hold a word.
    """
    words = wanted_words(question)
    query = "select passages, words from catalog_word_counts where space = %s and words > 0"
    counts = db.execute(query, [space]).fetchone()
    if not words or counts is None:
        return {}
    passages, length = counts
    found = db.execute(
        _FIGURES,
        {
            "space": space,
            "words": [_number(space, word) for word in words],
            "weights": list(words.values()),
            "passages": passages,
            "average": length / passages,
            "k": k,
            "also": list(also),
        },
    )
    return dict(found.fetchall())


def postings(db: psycopg.Connection, space: int, question: str) -> list[Postings]:
    """Of each word of a question the passages that hold it; words that none holds are left out."""
    found = []
    for word, weight in wanted_words(question).items():
        rows = db.execute(_PLACES, {"space": space, "word": _number(space, word)}).fetchall()
        if rows:
            numbers, times = np.array(rows, np.int64).T
            found.append(Postings(weight, numbers, times))
    return found


def total_length(db: psycopg.Connection, space: int) -> int:
    """How many words all passages have together."""
    query = "select words from catalog_word_counts where space = %s"
    return int((db.execute(query, [space]).fetchone() or (0,))[0])


def lengths(db: psycopg.Connection, space: int, numbers: Collection[int]) -> dict[int, int]:
    """How many words passages have, by number; those that cannot be found are left out."""
    query = "select number, length from catalog_words where space = %s and number = any(%s)"
    return dict(db.execute(query, [space, list(numbers)]).fetchall())


def drop(db: psycopg.Connection, space: int) -> None:
    """Forget all words of an index."""
    for table in ("catalog_words", "catalog_word_counts"):
        db.execute(f"delete from {table} where space = %s", [space])


# FTS5's formula. A word that is in most passages still counts for something. A word's place is
# looked up in the passages that hold it, not in all that hold any of the words. They are found by
# the words, whose numbers name the index too: the sum keeps PostgreSQL from reading all of it.
_FIGURES = f"""
    with found as materialized (
      select p.number, p.length, w.word, w.weight, p.times
      from unnest(%(words)s::bigint[], %(weights)s::float8[]) as w (word, weight)
      cross join lateral (
        select number, length, times[array_position(terms, w.word)]::float8 as times
        from catalog_words where space + 0 = %(space)s and terms @> array[w.word] offset 0
      ) as p
    ), rarity as (
      select word, greatest(
        ln((%(passages)s::float8 - count(*) + 0.5) / (count(*) + 0.5)), 1e-6) as idf
      from found group by word
    ), ranked as (
      select number, sum(weight * idf * times * {K1 + 1} / (times + {K1}
        * ({1 - B} + {B} * length / %(average)s::float8))) as bm25
      from found join rarity using (word) group by number
    )
    select number, bm25 from ranked where number = any(%(also)s::bigint[])
    or bm25 >= coalesce((select bm25 from ranked order by bm25 desc offset %(k)s - 1 limit 1), 0)
      - {SAME_SCORE} * (select max(bm25) from ranked)
"""


_PLACES = """
    select number, times[array_position(terms, %(word)s)] from catalog_words
    where space + 0 = %(space)s and terms @> array[%(word)s::bigint]
"""


def _number(space: int, word: str) -> int:
    return int.from_bytes(_term(space, word), "big", signed=True)


@lru_cache(_REMEMBERED)
def _term(space: int, word: str) -> bytes:
    """The number that a word is kept as."""
    return hashlib.sha256(f"{space}:{word}".encode()).digest()[:8]
