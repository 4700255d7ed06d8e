"""Words in PostgreSQL have the figures that FTS5 gives them in SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from lorebind_knowledge.catalog import postgres_words, words
from lorebind_knowledge.postgres.address import PostgresAddress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

SPACE, OTHER = 2**62 - 1, 7
SAID = ["Running", "runs", "naïve", "NAIVE", "x", "the", "max", "don't", "漢字", "a" * 300, "42"]


@pytest.fixture
def postgres_db(dsn: str) -> Iterator[psycopg.Connection]:
    """A transaction in which the tables are made."""
    with closing(PostgresAddress(dsn).connect(autocommit=False)) as db:
        for statement in postgres_words.SQL:
            db.execute(statement)
        yield db


@pytest.fixture
def sqlite_db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        yield db


def passages(count: int, *, first: int = 1, seed: int = 5) -> list[tuple[int, str]]:
    rng = np.random.default_rng(seed)
    return [
        (number, " ".join(rng.choice(SAID, rng.integers(0, 30))))
        for number in range(first, first + count)
    ]


def agree(
    postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection, question: str, k: int = 1000
) -> dict[int, float]:
    """The figures of both, which are the same."""
    theirs = words.figures(sqlite_db, SPACE, question, k, ())
    ours = postgres_words.figures(postgres_db, SPACE, question, k, ())
    assert ours == pytest.approx({number: theirs[number] for number in ours}, rel=1e-9)
    best = sorted(theirs.values(), reverse=True)[:k]
    # Neither of those that are given nor of those that are not is any worse or better.
    assert sorted(ours.values(), reverse=True)[:k] == pytest.approx(best, rel=1e-9)
    return ours


@pytest.mark.parametrize("also", [(), (700,)])
def test_the_best_of_many(sqlite_db: sqlite3.Connection, also: tuple[int, ...]) -> None:
    """Where many hold the words, the best are given with all that tie with the last of them."""
    words.add(sqlite_db, SPACE, [(number, "bread") for number in range(1, 601)])
    words.add(sqlite_db, SPACE, [(number, f"bread x{number} y z") for number in range(601, 1201)])
    words.add(sqlite_db, SPACE, [(number, "nothing") for number in range(1201, 3601)])
    assert set(range(1, 601)) <= words.figures(sqlite_db, SPACE, "bread", 5, also).keys()
    best = words.figures(sqlite_db, SPACE, "bread x700", 1, also)
    assert max(best, key=best.__getitem__) == 700


@pytest.mark.parametrize(
    "question",
    ["run naive", "naive Naive 漢字", "x" * 3 + " " + "a" * 300, "don't", "none such", "the", "42"],
)
def test_the_figures_are_those_of_fts5(
    postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection, question: str
) -> None:
    """Each passage has FTS5's BM25, whatever else is kept, comes and goes."""
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
    found = agree(postgres_db, sqlite_db, question)
    assert not found.keys() & {number for number, _ in gone}
    for k in (1, 7, 50):
        assert len(agree(postgres_db, sqlite_db, question, k)) >= min(k, len(found))


def test_a_long_question(postgres_db: psycopg.Connection, sqlite_db: sqlite3.Connection) -> None:
    """A question may have any number of words; one that is said more often counts more."""
    for module, db in ((postgres_words, postgres_db), (words, sqlite_db)):
        module.add(db, SPACE, passages(200))
    agree(postgres_db, sqlite_db, " ".join(f"run word{number}" for number in range(200)), 20)


def test_the_best_with_all_that_tie(postgres_db: psycopg.Connection) -> None:
    """Of equal passages all are given or none, and of others those that are asked for."""
    rows = [(number, "keys keys" if number % 3 else "keys bill") for number in range(1, 31)]
    postgres_words.add(postgres_db, SPACE, [*rows, (31, "rules"), (32, "")])
    found = postgres_words.figures(postgres_db, SPACE, "keys", 2, ())
    assert sorted(found) == [number for number in range(1, 31) if number % 3]
    found = postgres_words.figures(postgres_db, SPACE, "keys", 2, [3, 31, 32, 99])
    assert set(found) == {3, *(number for number in range(1, 31) if number % 3)}


def test_an_identifier_is_looked_for_by_its_words(postgres_db: psycopg.Connection) -> None:
    """A passage that has any of them is found."""
    postgres_words.add(postgres_db, SPACE, [(1, "max_tokens"), (2, "token"), (3, "none")])
    found = postgres_words.figures(postgres_db, SPACE, "max_tokens", 9, ())
    assert set(found) == {1, 2}


def test_nothing_to_find(postgres_db: psycopg.Connection) -> None:
    """Without words there are no figures: not before the first, not of empty passages."""
    assert postgres_words.figures(postgres_db, SPACE, "keys", 9, [1]) == {}
    postgres_words.remove(postgres_db, SPACE, [(1, "keys")])
    postgres_words.add(postgres_db, SPACE, [(1, ""), (2, "?!")])
    assert postgres_words.figures(postgres_db, SPACE, "keys", 9, [1]) == {}
    postgres_words.add(postgres_db, SPACE, [(3, "keys")])
    assert set(postgres_words.figures(postgres_db, SPACE, "keys", 9, ())) == {3}
    assert postgres_words.figures(postgres_db, SPACE, "what is the", 9, ()) == {}


def test_dropping(postgres_db: psycopg.Connection) -> None:
    """A dropped index has no words; others keep theirs."""
    for space in (SPACE, OTHER):
        postgres_words.add(postgres_db, space, [(1, "keys")])
    postgres_words.drop(postgres_db, SPACE)
    assert postgres_words.figures(postgres_db, SPACE, "keys", 9, ()) == {}
    assert set(postgres_words.figures(postgres_db, OTHER, "keys", 9, ())) == {1}


def test_words_are_of_the_callers_transaction(dsn: str, postgres_db: psycopg.Connection) -> None:
    """What is rolled back does not count; what is committed counts for everybody."""
    postgres_db.commit()
    postgres_words.add(postgres_db, SPACE, [(1, "keys")])
    postgres_db.rollback()
    postgres_words.add(postgres_db, SPACE, [(2, "keys")])
    with closing(PostgresAddress(dsn).connect(autocommit=True)) as other:
        assert postgres_words.figures(other, SPACE, "keys", 9, ()) == {}
        postgres_db.commit()
        assert set(postgres_words.figures(other, SPACE, "keys", 9, ())) == {2}


def test_words_of_other_indexes_are_other_words() -> None:
    """The number of a word depends on the index, and is the same in every process."""
    assert postgres_words._term(1, "key") != postgres_words._term(2, "key")
    assert postgres_words._term(1, "key").hex() == "06706879631bde41"
