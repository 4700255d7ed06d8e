"""Features of the PostgreSQL store: its table, its counts, exact searches, forks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psycopg
import pytest
from pydantic import ValidationError

from lorebind_config.errors import IndexMismatchError, StoreError, UsageError
from lorebind_config.filters import compile_filter
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector import store as store_module
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
from lorebind_knowledge.stores.pgvector.table import Table
from tests.processes import run_program

from .pgvector_vectors import EAST, INDEX, OTHER, SPACE, hits, indexes, stored, unit


@pytest.fixture
def store(make_store: Callable[..., PgvectorStore]) -> PgvectorStore:
    return make_store()


def tables(db: psycopg.Connection) -> list[str]:
    query = """select relname from pg_class where relkind in ('r', 'v') and
        relnamespace = current_schema()::regnamespace order by 1"""
    return [name for (name,) in db.execute(query)]


# The table.


def test_reading_makes_nothing(store: PgvectorStore, db: psycopg.Connection) -> None:
    """Until a vector is added, nothing is created, and every space is empty."""
    assert hits(store) == []
    assert store.get(SPACE, [1]) == {}
    assert store.count(SPACE) == 0
    store.delete(SPACE, [1])
    store.finish_load(SPACE)
    store.drop(SPACE)
    assert tables(db) == []


def test_tables_of_any_name(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Stores with different tables are separate; an invalid name is refused."""
    names = ["Chunks", "select", "t" * 55]
    stores = [make_store(table=name) for name in names]
    for number, store in enumerate(stores, 1):
        store.add(SPACE, [stored(number)])
    for number, store in enumerate(stores, 1):
        assert hits(store) == [number]
    there = {f"{name}_{part}" for name in names for part in ("vectors", "counts")}
    assert there == set(tables(db))
    for name in ("", "9", 'a"; drop table x; --', "t" * 56, "ä"):
        with pytest.raises(ValidationError, match="name of a table"):
            make_store(table=name)


def test_many_make_the_table_at_once(make_store: Callable[..., PgvectorStore]) -> None:
    """Stores that add their first vectors at the same moment create one table."""
    stores = [make_store() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: stores[n].add(SPACE, [stored(n + 1)]), range(8)))
    assert [sorted(hits(store)) for store in stores] == [[*range(1, 9)]] * 8


def test_who_looked_before_the_table_was_made(
    store: PgvectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that found no table does not overwrite the later finding of another."""
    looked, go_on, look = threading.Event(), threading.Event(), Table.is_there
    answers: list[bool] = []

    def slowly(table: Table, *args: Any) -> bool:
        answers.append(there := look(table, *args))
        if threading.current_thread() is not threading.main_thread():
            looked.set()
            go_on.wait()
        return there

    monkeypatch.setattr(Table, "is_there", slowly)
    with ThreadPoolExecutor(1) as threads:
        early = threads.submit(hits, store)
        looked.wait()
        store.add(SPACE, [stored(1)])
        assert hits(store) == [1]
        before = len(answers)
        go_on.set()
        assert early.result() == []
    assert hits(store) == [1]
    assert len(answers) == before


def test_without_leave_to_make_tables(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """With `ensure_schema: false`, nothing is created, and the error has the SQL to run."""
    store = make_store(ensure_schema=False, ensure_index=True, ann_from=1)
    with pytest.raises(StoreError, match='table "knowledge_chunks_vectors" missing') as caught:
        store.add(SPACE, [stored(1)])
    assert tables(db) == []
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    store.add(SPACE, [stored(1)])
    store.finish_load(SPACE)
    assert hits(store) == [1]
    with pytest.raises(StoreError, match="index is missing") as caught:
        store.build_index(SPACE)
    assert indexes(db) == {}
    _, _, sql = str(caught.value).partition(":\n")
    db.execute(sql)
    assert list(indexes(db).values()) == [True]
    assert hits(store) == [1]
    store.drop(SPACE)
    assert list(indexes(db).values()) == [True]


def test_a_table_of_somebody_else(store: PgvectorStore, db: psycopg.Connection) -> None:
    """A foreign table is not changed; the error names it and the missing columns."""
    db.execute("create table knowledge_chunks_vectors (number bigint, space text)")
    for call in (lambda: store.add(SPACE, [stored(1)]), lambda: hits(store)):
        with pytest.raises(StoreError, match=r"not one of Lorebind's.*dates, embedding, fields;"):
            call()


def test_a_dropped_table(store: PgvectorStore, db: psycopg.Connection) -> None:
    """A dropped table is an error once, and is created again for the next vector."""
    store.add(SPACE, [stored(1)])
    assert hits(store) == [1]
    db.execute("drop table knowledge_chunks_vectors")
    with pytest.raises(StoreError, match="if the table was dropped"):
        hits(store)
    assert hits(store) == []
    store.add(SPACE, [stored(2)])
    assert hits(store) == [2]


def test_configured_dimension(make_store: Callable[..., PgvectorStore]) -> None:
    """A declared dimension refuses spaces of another one."""
    store = make_store(dimension=8)
    for call in (lambda: store.add(SPACE, [stored(1)]), lambda: store.count(SPACE)):
        with pytest.raises(IndexMismatchError, match=r"handbook.*\b4\b.*\b8\b"):
            call()


# Adding.


def test_writers_of_the_same_numbers(make_store: Callable[..., PgvectorStore]) -> None:
    """Vectors that several writers add concurrently, in any order, are stored once."""
    stores = [make_store() for _ in range(3)]
    for start in range(1, 1001, 50):
        many = [stored(number) for number in range(start, start + 50)]
        turned = [many, many[::-1]]
        with ThreadPoolExecutor(6) as threads:
            calls = [threads.submit(stores[n % 3].add, SPACE, turned[n % 2]) for n in range(12)]
        for call in calls:
            call.result()
    assert stores[0].count(SPACE) == 1000


def test_more_than_a_block(store: PgvectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with several statements adds all its vectors or none."""
    monkeypatch.setattr(store_module, "_BLOCK", 7)
    many = [stored(number) for number in range(1, 51)]
    for bad in (stored(51, EAST[:2]), stored(51, EAST * np.nan), stored(51, n=float("nan"))):
        with pytest.raises(StoreError):
            store.add(SPACE, [*many, bad])
        assert store.count(SPACE) == 0
    store.add(SPACE, many[:20])
    store.add(SPACE, many)
    assert sorted(hits(store)) == [row.number for row in many]
    assert sorted(store.get(SPACE, range(40, 60))) == [*range(40, 51)]
    store.delete(SPACE, range(20))
    assert sorted(hits(store)) == [*range(20, 51)]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (stored(7, EAST[:2]), r"vector 7 has the shape \(2,\), expected the dimension 4"),
        (stored(7, n=float("nan")), "metadata of vector 7 is not JSON"),
        (stored(7, n=object()), "metadata of vector 7 is not JSON"),
        (stored(7, text="\ud800"), "metadata of vector 7 is not JSON"),
        (stored(7, np.full(4, np.inf, np.float32)), "infinite"),
    ],
    ids=["dimension", "nan", "object", "surrogate", "infinity"],
)
def test_vectors_that_cannot_be_stored(store: PgvectorStore, bad: StoredVector, says: str) -> None:
    """The error names the problem and the vector."""
    with pytest.raises(StoreError, match=says):
        store.add(SPACE, [stored(1), bad])


# Counting.


def counted(store: PgvectorStore, db: psycopg.Connection) -> int:
    """Return the count of a space, which is the number of its rows."""
    rows = "select count(*) from knowledge_chunks_vectors where space = %s"
    assert db.execute(rows, [SPACE.index_uid]).fetchone() == (store.count(SPACE),)
    return store.count(SPACE)


def test_every_write_is_counted(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """The count is that of the rows, also if others wrote them, and reads few rows after a load."""
    store = make_store()
    store.add(SPACE, [stored(number) for number in range(1, 101)])
    store.add(OTHER, [stored(number) for number in range(1, 11)])
    store.add(SPACE, [stored(number) for number in range(91, 121)])
    assert counted(store, db) == 120
    store.delete(SPACE, range(100, 200))
    assert counted(store, db) == 99
    assert db.execute("select count(*) from knowledge_chunks_counts").fetchone() == (4,)
    store.finish_load(SPACE)
    assert counted(store, db) == 99
    assert db.execute("select count(*) from knowledge_chunks_counts").fetchone() == (2,)
    with db.transaction(force_rollback=True):
        db.execute("delete from knowledge_chunks_vectors")
    db.execute("delete from knowledge_chunks_vectors where number < 10")
    assert counted(store, db) == 90
    store.drop(SPACE)
    assert counted(store, db) == 0
    assert store.count(OTHER) == 1
    db.execute("truncate knowledge_chunks_vectors")
    assert store.count(OTHER) == 0
    store.add(SPACE, [stored(1)])
    db.execute("drop table knowledge_chunks_vectors")
    with pytest.raises(StoreError, match="if the table was dropped"):
        hits(store)
    store.add(SPACE, [stored(1), stored(2)])
    assert counted(store, db) == 2
    db.execute("alter table knowledge_chunks_vectors rename to moved_vectors")
    moved = make_store(table="moved")
    moved.add(SPACE, [stored(3)])
    moved.finish_load(SPACE)
    assert moved.count(SPACE) == 3


def test_concurrent_writes_are_counted(
    make_store: Callable[..., PgvectorStore], db: psycopg.Connection
) -> None:
    """Writers that add, delete and merge the counts at the same time lose none."""
    stores = [make_store() for _ in range(4)]
    stores[0].add(SPACE, [stored(1)])

    def write(writer: int) -> None:
        rng = np.random.default_rng(writer)
        for _ in range(30):
            numbers = np.unique(rng.integers(1, 200, 40)).tolist()
            if rng.random() < 0.5:
                stores[writer].add(SPACE, [stored(number) for number in numbers])
            else:
                stores[writer].delete(SPACE, [max(numbers)])
            stores[writer].finish_load(SPACE)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert counted(stores[0], db)


# Searching exactly.


def test_the_nearest_are_found(store: PgvectorStore) -> None:
    """Numbers are sorted by cosine, with or without a filter, and vectors are unchanged."""
    rng = np.random.default_rng(5)
    space = Partition(INDEX, 5, 48)
    vectors = unit(rng, 300, 48)
    vectors[10:13] = 0
    metadata = [
        {"n": int(rng.integers(0, 5)), "tags": list(map(str, rng.choice(["a", "b"], n % 3)))}
        for n in range(300)
    ]
    store.add(space, [stored(n, v, **metadata[n]) for n, v in enumerate(vectors)])
    for where in ({}, {"n": {"$gt": 2}}, {"tags": "a", "n": [1, 3]}, {"tags": "none"}):
        passing = [n for n in range(300) if compile_filter(where)(metadata[n])]
        for k in (1, 7, 50, 400):
            query = unit(rng, 1, 48)[0]
            numbers, values, is_exact = store.nearest(space, query, k, where, None)
            assert is_exact
            assert len(set(numbers)) == len(numbers) == min(k, len(passing))
            assert set(numbers) <= set(passing)
            cosines = vectors[list(numbers)].astype(np.float64) @ query
            best = -np.sort(-(vectors[passing].astype(np.float64) @ query))[:k]
            assert cosines == pytest.approx(best, abs=1e-6)
            assert values is not None
            assert np.array_equal(values, vectors[list(numbers)])
    for number, vector in store.get(space, range(300)).items():
        assert np.array_equal(vector, vectors[number])


def test_several_dimensions(store: PgvectorStore) -> None:
    """Spaces of several dimensions share a table, and each is searched separately."""
    plane = Partition(INDEX, 3, 2)
    store.add(SPACE, [stored(1), stored(2, -EAST)])
    store.add(plane, [stored(1, np.array([0, 1], np.float32))])
    assert hits(store) == [1, 2]
    assert hits(store, plane) == [1]
    with pytest.raises(StoreError, match="dimension"):
        store.nearest(SPACE, EAST[:2], 1, {}, None)


def test_malformed_filters(store: PgvectorStore) -> None:
    """A malformed filter is a usage error."""
    with pytest.raises(UsageError, match=r"\$nor"):
        store.nearest(SPACE, EAST, 1, {"$nor": [{}]}, None)


"""Settings that make the planner use the index for the few rows of these tests."""


# Other processes and packages.


SCRIPT = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads is what is tried here
import numpy as np
from lorebind_config.namespace import IndexKey, Namespace
from lorebind_knowledge.records import Partition
from lorebind_knowledge.stores.base import StoredVector
from lorebind_knowledge.stores.pgvector.store import PgvectorStore
store = PgvectorStore(sys.argv[1])
space, vector = Partition(IndexKey(Namespace("t", "p", "s", "k")), 1, 2), np.ones(2, np.float32)
def add(number):
    store.add(space, [StoredVector(number, vector, "", {})])
def search():
    return store.nearest(space, vector, 50, {}, None).numbers
add(1)
stop = threading.Event()
def busy():
    while not stop.is_set():
        search()
thread = threading.Thread(target=busy)
thread.start()
for number in range(5):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert 1 in search()
            add(10 + number)
            status = 0
        finally:
            os._exit(status)
    add(20 + number)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert store.count(space) == 11, store.count(space)
store.close()
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork here")
def test_after_a_fork(dsn: str) -> None:
    """After a fork, parent and child have their own connections, while a thread searches."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT, dsn]
    done = run_program(command)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_needs_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without psycopg, the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"pip install 'lorebind\[postgres\]'"):
        PgvectorStore("postgresql://localhost/x")
