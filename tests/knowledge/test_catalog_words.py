"""SQLite and PostgreSQL store words alike, with the same BM25 as FTS5."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from types import ModuleType
from typing import Any

import numpy as np
import psycopg
import pytest

from lorebind_knowledge.catalog import postgres_words, words
from lorebind_knowledge.database.postgres_address import PostgresAddress
from lorebind_knowledge.index.words import idf, tf_saturation
from lorebind_knowledge.text.terms import Passage, query_terms

SPACE, OTHER = 2**62 - 1, 7
SAID = ["Running", "runs", "naïve", "NAIVE", "x", "the", "max", "don't", "漢字", "a" * 300, "42"]


@pytest.fixture
def postgres_db(dsn: str) -> Iterator[psycopg.Connection]:
    """Yield a transaction in which the tables exist."""
    with closing(PostgresAddress(dsn).connect(autocommit=False)) as db:
        for statement in postgres_words.SQL:
            db.execute(statement)
        yield db


@pytest.fixture
def sqlite_db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        yield db


def numbered(*texts: str, first: int = 1) -> list[Passage]:
    return [Passage(number, text, "en") for number, text in enumerate(texts, start=first)]


def passages(count: int, *, first: int = 1, seed: int = 5) -> list[Passage]:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(SAID, rng.integers(0, 30))) for _ in range(count)]
    return numbered(*texts, first=first)


def held(
    module: ModuleType, db: Any, question: str, space: int = SPACE
) -> dict[str, dict[int, int]]:
    """Return for each word of a question the passages that contain it, with counts."""
    counts = {word: module.postings(db, space, word) for word in query_terms(question, ["en"])}
    return {
        word: dict(zip(posting.numbers.tolist(), posting.times.tolist(), strict=True))
        for word, posting in counts.items()
        if posting is not None
    }


def figures_of_fts5(db: sqlite3.Connection, question: str) -> dict[int, float]:
    """Return SQLite's own BM25 for a question."""
    table = words._table(SPACE)
    match = " OR ".join(f'"{word}"' for word in query_terms(question, ["en"]).elements())
    if not match:
        return {}
    query = f"select rowid, -rank from {table} where {table} match ?"
    return dict(db.execute(query, (match,)).fetchall())


def figures(module: ModuleType, db: Any, question: str) -> dict[int, float]:
    """Return the BM25 of passages."""
    passages, length = module.totals(db, SPACE)
    scores: dict[int, float] = {}
    for word, times in held(module, db, question).items():
        lengths = module.lengths(db, SPACE, list(times))
        weight = query_terms(question, ["en"])[word] * idf(passages, len(times))
        for number, often in times.items():
            part = tf_saturation(often, lengths[number], length / passages)
            scores[number] = scores.get(number, 0.0) + weight * part
    return scores


def agree(
    postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection, question: str
) -> dict[int, float]:
    """Return the BM25 of passages, after checking that both databases and FTS5 agree."""
    assert held(postgres_words, postgres_db, question) == held(words, sqlite_db, question)
    theirs = pytest.approx(figures_of_fts5(sqlite_db, question), rel=1e-9)
    assert figures(words, sqlite_db, question) == theirs
    ours = figures(postgres_words, postgres_db, question)
    assert ours == theirs
    return ours


@pytest.mark.parametrize(
    "question",
    ["run naive", "naive Naive 漢字", "x" * 3 + " " + "a" * 300, "don't", "none such", "the", "42"],
)
def test_the_figures_are_those_of_fts5(
    postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection, question: str
) -> None:
    """Each passage has FTS5's BM25, whatever is added and removed."""
    first, more = passages(200), passages(100, first=201, seed=6)
    gone = [*first[:50], *more[10:30]]
    both = ((postgres_words, postgres_db), (words, sqlite_db))
    for module, db in both:
        module.add(db, SPACE, first)
        module.add(db, OTHER, passages(300, seed=7))
    agree(postgres_db, sqlite_db, question)
    for module, db in both:
        module.add(db, SPACE, more)
        module.remove(db, SPACE, gone)
    scores = agree(postgres_db, sqlite_db, question)
    assert not scores.keys() & {passage.number for passage in gone}


def test_a_long_question(postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection) -> None:
    """A question may have any number of words; repeated words count more."""
    for module, db in ((postgres_words, postgres_db), (words, sqlite_db)):
        module.add(db, SPACE, passages(200))
    agree(postgres_db, sqlite_db, " ".join(f"run word{number}" for number in range(200)))


def test_an_identifier_is_looked_for_by_its_words(postgres_db: psycopg.Connection) -> None:
    """An identifier finds passages with any of its words."""
    postgres_words.add(postgres_db, SPACE, numbered("max_tokens", "token", "none"))
    postings = held(postgres_words, postgres_db, "max_tokens")
    assert postings == {"max": {1: 1}, "token": {1: 1, 2: 1}}


def test_nothing_to_find(postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection) -> None:
    """Passages without words are counted, and no question finds them."""
    for module, db in ((postgres_words, postgres_db), (words, sqlite_db)):
        module.add(db, SPACE, numbered("keys"))
        module.remove(db, SPACE, numbered("keys"))
        assert held(module, db, "keys") == {}
        assert module.totals(db, SPACE) == (0, 0)
        module.add(db, SPACE, numbered("", "?!"))
        assert held(module, db, "keys") == {}
        assert module.totals(db, SPACE) == (2, 0)
        module.add(db, SPACE, numbered("lamps and a lamp", first=3))
        assert held(module, db, "lamp") == {"lamp": {3: 2}}
        assert module.totals(db, SPACE) == (3, 4)
        assert module.lengths(db, SPACE, [1, 3, 9]) == {1: 0, 3: 4}


def test_dropping(postgres_db: psycopg.Connection) -> None:
    """A dropped index has no words; others keep theirs."""
    for space in (SPACE, OTHER):
        postgres_words.add(postgres_db, space, numbered("keys"))
    postgres_words.drop(postgres_db, SPACE)
    assert held(postgres_words, postgres_db, "keys") == {}
    assert held(postgres_words, postgres_db, "keys", OTHER) == {"key": {1: 1}}


def test_words_are_of_the_callers_transaction(dsn: str, postgres_db: psycopg.Connection) -> None:
    """Words count for others once they are committed; rolled back ones never count."""
    postgres_db.commit()
    postgres_words.add(postgres_db, SPACE, numbered("keys"))
    postgres_db.rollback()
    postgres_words.add(postgres_db, SPACE, numbered("keys", first=2))
    with closing(PostgresAddress(dsn).connect(autocommit=True)) as other:
        assert held(postgres_words, other, "keys") == {}
        postgres_db.commit()
        assert held(postgres_words, other, "keys") == {"key": {2: 1}}


def test_words_of_other_indexes_are_other_words() -> None:
    """The number of a word depends on the index, and is the same in every process."""
    assert postgres_words._term(1, "key") != postgres_words._term(2, "key")
    assert postgres_words._term(1, "key").hex() == "06706879631bde41"
